//! IPv4, IPv6 and both.

use serde_json::json;

use super::play;
use super::scene::{Scene, containers, names_of, settle, status};

#[test]
fn a_dual_stack_lease_is_given_back_by_either_name() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        let cidrs = json!(["10.64.0.0/24", "fd64::/64"]);
        scene
            .subnet("pods", json!({"cidrs": cidrs, "gateways": ["10.64.0.1", "fd64::1"]}))
            .await;
        scene.node("n1").await;
        let container = scene.container("n1").await;
        assert_eq!(
            (container.primary_ip.as_str(), container.primary_ip_v6.as_deref()),
            ("10.64.0.2", Some("fd64::2"))
        );
        assert_eq!(container.subnet_address_space, "10.64.0.0/24");
        assert_eq!(container.subnet_address_space_v6.as_deref(), Some("fd64::/64"));
        assert_eq!(container.default_gateway.as_deref(), Some("10.64.0.1"));
        assert_eq!(container.default_gateway_v6.as_deref(), Some("fd64::1"));

        scene.ask("n1", 3, &[]).await;
        let container = scene.with_addresses("n1", 6).await;
        let nnc = scene.nncs().get("n1").await.unwrap();
        assert_eq!(
            status(&nnc).assigned_ip_count,
            3,
            "leases are counted as they are asked for"
        );
        let is_v6 = |ip: &str| ip.contains(':');
        let v6 = container
            .ip_assignments
            .iter()
            .find(|assignment| is_v6(&assignment.ip))
            .unwrap();
        let v4 = container
            .ip_assignments
            .iter()
            .rfind(|assignment| !is_v6(&assignment.ip))
            .unwrap();
        scene.ask("n1", 1, &[v6.name.clone(), v4.name.clone()]).await;
        let left = scene.with_addresses("n1", 2).await;
        assert_eq!(left.version, 2);
        assert_eq!(
            left.ip_assignments
                .iter()
                .filter(|assignment| is_v6(&assignment.ip))
                .count(),
            1
        );
        assert_eq!(scene.owned("pods").await, 4);
    });
}

#[test]
fn a_dual_stack_subnet_is_short_when_one_family_is() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene
            .subnet("pods", json!({"cidrs": ["10.64.0.0/30", "fd64::/64"]}))
            .await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 4, &[]).await;
        scene.with_addresses("n1", 2).await;
        scene.event("NodeNetworkConfig", "n1", "SubnetFull").await;
        settle().await;
        assert_eq!(
            scene.owned("pods").await,
            4,
            "nothing of the other family is held in vain"
        );
        let subnet = scene.subnets().get("pods").await.unwrap().status.unwrap();
        assert_eq!((subnet.capacity.unwrap().0, subnet.free.unwrap().0), (2, 0));
    });
}

#[test]
fn a_subnet_of_ipv6_alone_works_like_any_other() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene
            .subnet("pods", json!({"cidrs": ["fd64::/64"], "gateways": ["fd64::1"]}))
            .await;
        scene.node("n1").await;
        let container = scene.container("n1").await;
        assert_eq!(
            (container.primary_ip.as_str(), container.primary_ip_v6.as_deref()),
            ("fd64::2", None)
        );
        assert_eq!(container.subnet_address_space, "fd64::/64");
        assert_eq!(container.default_gateway.as_deref(), Some("fd64::1"));
        scene.ask("n1", 2, &[]).await;
        let container = scene.with_addresses("n1", 2).await;
        scene.ask("n1", 1, &names_of(&container)[..1]).await;
        scene.with_addresses("n1", 1).await;
        let nnc = scene.nncs().get("n1").await.unwrap();
        assert_eq!(containers(&nnc)[0].version, 2);
        // More than JSON can count.
        let subnet = scene.subnets().get("pods").await.unwrap().status.unwrap();
        assert_eq!(subnet.capacity.unwrap().0, (1 << 64) - 2);
    });
}
