//! Subnets over the wire: the same rules and errors as the ledger's own.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_addr::{InUse, Plan};
use berth_ledger::{LedgerError, PlanError};
use berth_nodenet::allocator::{Allocator, AllocatorError, PodCidrs, Registry, Removal, Update};
use serde_json::json;

use super::raw::ask;
use super::world::{CLUSTER, World, node, of, plan, request};

const REST: Duration = Duration::from_secs(30);

#[tokio::test]
async fn utilization_is_answered_in_the_words_of_the_field() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    client
        .set_subnet("pods", &plan(&["10.64.0.0/24", "fd64::/64"]), REST)
        .await
        .unwrap();
    client.create("pods", &node("a")).await.unwrap();
    client.update("pods", &node("a"), request(1, 6)).await.unwrap();
    let pair = world.authority.client(CLUSTER);
    let (code, answer) =
        ask(&world, &pair, "GET", "/networks/prod/subnets/pods/utilization", "").await;
    assert_eq!(code, 200);
    // IPv4 has less left than IPv6, and a lease takes one of each.
    let timestamp = answer[0]["timestamp"].as_str().unwrap();
    timestamp.parse::<jiff::Timestamp>().unwrap();
    assert_eq!(
        answer,
        json!([{"timestamp": timestamp, "capacity": 254, "reserved": 7}])
    );
}

#[tokio::test]
async fn the_counts_endpoint_follows_leases_and_releases_at_once() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    let dual = plan(&["10.64.0.0/24", "fd64::/120"]);
    client.set_subnet("pods", &dual, REST).await.unwrap();
    client.create("pods", &node("a")).await.unwrap();
    let has = client.update("pods", &node("a"), request(1, 6)).await.unwrap();
    let back = Update {
        give_back: vec![has.secondaries[0].id],
        ..request(2, 5)
    };
    client.update("pods", &node("a"), back).await.unwrap();
    // Asked once: they follow the answers without delay.
    let pair = world.authority.client(CLUSTER);
    let (code, answer) = ask(&world, &pair, "GET", "/networks/prod/subnets/pods/counts", "").await;
    assert_eq!(code, 200);
    let freed = client.counts("pods").await.unwrap().freed;
    let expected = json!({
        "families": {
            "IPv4": {"capacity": 254, "reserved": 6, "coolingDown": 1, "free": 247},
            "IPv6": {"capacity": 255, "reserved": 6, "coolingDown": 1, "free": 248},
        },
        "freed": freed,
    });
    assert_eq!(answer, expected);
    let nowhere = "/networks/prod/subnets/nowhere/counts";
    let (code, refusal) = ask(&world, &pair, "GET", nowhere, "").await;
    assert_eq!((code, &refusal["reason"]), (404, &json!("NoSubnet")));
}

#[tokio::test]
async fn a_service_gives_no_pod_cidrs_and_says_so_in_one_line() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    assert!(!client.serves_pod_cidrs());
    let refused = client.lease_pod_cidrs("pods", &node("a")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "allocator https://{}: the service allocates no podCIDRs: leave the controller \
             nodeipam out, or use a store instead of the service",
            world.address
        )
    );
    let unit = "10.64.0.0/24".parse().unwrap();
    let claimed = client.claim_pod_cidr("pods", &node("a"), unit, vec![unit]).await;
    assert_eq!(claimed.unwrap_err(), refused);
    assert_eq!(client.owner_of("pods", unit).await.unwrap_err(), refused);
}

#[tokio::test]
async fn an_overlap_is_the_ledgers_error() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    client.set_subnet("pods", &plan(&["10.64.0.0/16"]), REST).await.unwrap();
    let refused = client
        .set_subnet("more", &plan(&["10.64.128.0/24"]), REST)
        .await
        .unwrap_err();
    let expected = LedgerError::Overlap {
        subnet: "more".to_owned(),
        other: "prod.pods".to_owned(),
        range: "10.64.128.0-10.64.128.255".to_owned(),
    };
    assert_eq!(refused, AllocatorError::Ledger(expected));
    let pair = world.authority.client(CLUSTER);
    let body = json!({"cidrs": ["10.64.128.0/24"], "reuseDelayMilliseconds": 0}).to_string();
    let (code, problem) = ask(&world, &pair, "PUT", "/networks/prod/subnets/more", &body).await;
    assert_eq!(
        (code, &problem["field"], &problem["reason"]),
        (409, &json!("cidrs"), &json!("Overlap"))
    );
    assert_eq!(
        ask(&world, &pair, "GET", "/networks/prod/subnets/more", "").await.0,
        404
    );
}

#[tokio::test]
async fn all_clusters_and_networks_are_on_one_address_plan() {
    let world = World::start().await;
    world
        .client(CLUSTER)
        .set_subnet("pods", &plan(&["10.64.0.0/16"]), REST)
        .await
        .unwrap();
    let pair = world.authority.client("green");
    let body = json!({"cidrs": ["10.64.0.0/16"], "reuseDelayMilliseconds": 0}).to_string();
    let (code, problem) = ask(&world, &pair, "PUT", "/networks/test/subnets/pods", &body).await;
    assert_eq!((code, &problem["other"]), (409, &json!("prod.pods")));
}

#[tokio::test]
async fn a_cidr_in_use_is_the_ledgers_error_and_stays() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    client.set_subnet("pods", &plan(&["10.64.0.0/24"]), REST).await.unwrap();
    let made = client.create("pods", &node("a")).await.unwrap();
    let refused = client
        .set_subnet("pods", &plan(&["10.65.0.0/24"]), REST)
        .await
        .unwrap_err();
    let in_use = InUse { unit: made.primary[0] };
    assert_eq!(
        refused,
        AllocatorError::Ledger(LedgerError::Plan(PlanError::InUse(in_use)))
    );
    assert_eq!(client.get("pods", &node("a")).await.unwrap(), Some(made));
}

#[tokio::test]
async fn a_subnet_that_is_extended_serves_what_was_missing() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    client.set_subnet("pods", &plan(&["10.64.0.0/30"]), REST).await.unwrap();
    client.create("pods", &node("a")).await.unwrap();
    let short = client.update("pods", &node("a"), request(1, 16)).await.unwrap();
    assert_eq!((short.secondaries.len(), short.short), (1, 15));
    let seen = client.counts("pods").await.unwrap().freed;
    client
        .set_subnet("pods", &plan(&["10.64.0.0/30", "10.65.0.0/24"]), REST)
        .await
        .unwrap();
    client.freed("pods", seen).await.unwrap();
    let whole = client.update("pods", &node("a"), request(1, 16)).await.unwrap();
    assert_eq!((whole.secondaries.len(), whole.short), (16, 0));
}

#[tokio::test]
async fn a_plan_that_is_wrong_by_itself_is_refused_on_both_ends() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    let refused = client.set_subnet("pods", &Plan::default(), REST).await.unwrap_err();
    assert!(
        matches!(refused, AllocatorError::Ledger(LedgerError::Plan(PlanError::Layout(_)))),
        "{refused}"
    );
    let pair = world.authority.client(CLUSTER);
    for (body, field) in [
        (json!({"cidrs": [], "reuseDelayMilliseconds": 0}), "cidrs"),
        (
            json!({"cidrs": ["10.64.0.1/16"], "reuseDelayMilliseconds": 0}),
            "cidrs[0]",
        ),
        (
            json!({"cidrs": ["10.0.0.0/8", "10.1.0.0/16"], "reuseDelayMilliseconds": 0}),
            "cidrs",
        ),
        (
            json!({
                "cidrs": ["10.64.0.0/16"], "excludes": ["10.65.0.1"], "reuseDelayMilliseconds": 0,
            }),
            "excludes",
        ),
        (
            json!({
                "cidrs": ["10.64.0.0/16"], "ranges": ["10.64.0.9-10.64.0.1"],
                "reuseDelayMilliseconds": 0,
            }),
            "ranges[0]",
        ),
        (
            json!({
                "cidrs": ["10.64.0.0/16"], "unitLengths": {"ipv4": 8}, "reuseDelayMilliseconds": 0,
            }),
            "unitLengths",
        ),
        (
            json!({"cidrs": ["10.64.0.0/16"], "reuseDelayMilliseconds": -1}),
            "reuseDelayMilliseconds",
        ),
        (json!({"cidrs": ["10.64.0.0/16"], "reuseDelay": "1s"}), "reuseDelay"),
    ] {
        let (code, problem) =
            ask(&world, &pair, "PUT", "/networks/prod/subnets/pods", &body.to_string()).await;
        assert_eq!((code, &problem["field"]), (400, &json!(field)), "{body}: {problem}");
    }
    assert_eq!(
        ask(&world, &pair, "GET", "/networks/prod/subnets/pods", "").await.0,
        404
    );
}

#[tokio::test]
async fn clusters_share_a_subnet_only_if_their_plans_agree() {
    let world = World::start().await;
    let (blue, green) = (world.client(CLUSTER), world.client("green"));
    let wide = plan(&["10.64.0.0/16"]);
    blue.set_subnet("pods", &wide, REST).await.unwrap();
    green.set_subnet("pods", &wide, REST).await.unwrap();
    blue.create("pods", &node("a")).await.unwrap();
    green.create("pods", &of("green", "a")).await.unwrap();
    // By hand, with what goes without saying left out.
    let red = world.authority.client("red");
    let body = json!({"cidrs": ["10.64.0.0/16"], "reuseDelayMilliseconds": 30_000}).to_string();
    assert_eq!(
        ask(&world, &red, "PUT", "/networks/prod/subnets/pods", &body).await.0,
        204
    );
    let refused = green
        .set_subnet("pods", &plan(&["10.64.0.0/16", "10.65.0.0/16"]), REST)
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("cluster blue") && refused.contains("cluster green"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_subnet_goes_when_nobody_has_anything_in_it() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    client.set_subnet("pods", &plan(&["10.64.0.0/24"]), REST).await.unwrap();
    client.create("pods", &node("a")).await.unwrap();
    let pair = world.authority.client(CLUSTER);
    let (code, problem) = ask(&world, &pair, "DELETE", "/networks/prod/subnets/pods", "").await;
    assert_eq!(
        (code, &problem["reason"], &problem["owners"]),
        (409, &json!("NotEmpty"), &json!(1))
    );
    let error = problem["error"].as_str().unwrap();
    assert!(error.contains("primary/blue/a/"), "{error}");
    assert_eq!(client.remove_subnet("pods").await, Ok(Removal::InUse { owners: 1 }));
    client.delete("pods", &node("a")).await.unwrap();
    assert_eq!(client.remove_subnet("pods").await, Ok(Removal::Removed));
    assert_eq!(client.remove_subnet("pods").await, Ok(Removal::Removed));
    let gone = client.counts("pods").await.unwrap_err();
    assert!(matches!(gone, AllocatorError::NoSubnet { .. }), "{gone}");
    client.set_subnet("more", &plan(&["10.64.0.0/16"]), REST).await.unwrap();
}

#[tokio::test]
async fn a_cluster_without_leases_can_leave_a_shared_subnet() {
    let world = World::start().await;
    let (blue, green) = (world.client(CLUSTER), world.client("green"));
    let wide = plan(&["10.64.0.0/16"]);
    blue.set_subnet("pods", &wide, REST).await.unwrap();
    green.set_subnet("pods", &wide, REST).await.unwrap();
    blue.create("pods", &node("a")).await.unwrap();
    green.create("pods", &of("green", "a")).await.unwrap();
    assert_eq!(green.remove_subnet("pods").await, Ok(Removal::InUse { owners: 1 }));
    green.delete("pods", &of("green", "a")).await.unwrap();
    assert_eq!(green.remove_subnet("pods").await, Ok(Removal::Removed));
    assert_eq!(blue.subnets().await.unwrap(), ["pods"]);
    assert!(blue.get("pods", &node("a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_cluster_sees_its_own_owners_and_the_subnets_of_its_network() {
    let world = World::start().await;
    let (blue, green) = (world.client(CLUSTER), world.client("green"));
    blue.set_subnet("pods", &plan(&["10.64.0.0/16"]), REST).await.unwrap();
    let pair = world.authority.client(CLUSTER);
    let body = json!({"cidrs": ["10.65.0.0/16"], "reuseDelayMilliseconds": 0}).to_string();
    assert_eq!(
        ask(&world, &pair, "PUT", "/networks/test/subnets/more", &body).await.0,
        204
    );
    blue.create("pods", &node("a")).await.unwrap();
    blue.update("pods", &node("a"), request(1, 2)).await.unwrap();
    green.create("pods", &of("green", "b")).await.unwrap();
    let owners = blue.owners("pods", CLUSTER).await.unwrap();
    let owners: BTreeSet<&str> = owners.iter().map(|owner| owner.as_str()).collect();
    assert_eq!(owners, ["primary/blue/a/uid-of-a", "secondary/blue/a/uid-of-a"].into());
    assert_eq!(green.subnets().await.unwrap(), ["pods"]);
    let gone = blue.owners("more", CLUSTER).await.unwrap_err();
    assert!(matches!(gone, AllocatorError::NoSubnet { .. }), "{gone}");
    let (code, problem) = ask(&world, &pair, "GET", "/networks/No/subnets", "").await;
    assert_eq!((code, &problem["field"]), (400, &json!("network")));
}

#[tokio::test]
async fn what_an_owner_has_is_taken_back_lease_by_lease() {
    let world = World::start().await;
    let client = world.client(CLUSTER);
    client.set_subnet("pods", &plan(&["10.64.0.0/24"]), REST).await.unwrap();
    client.create("pods", &node("a")).await.unwrap();
    client.update("pods", &node("a"), request(1, 2)).await.unwrap();
    let [primary, secondary] = [node("a").primary().unwrap(), node("a").secondary().unwrap()];
    let own: Vec<_> = client
        .held("pods", &primary)
        .await
        .unwrap()
        .iter()
        .map(|lease| lease.id)
        .collect();
    // Its own address goes last: as long as it is there, the container is.
    assert_eq!(client.take_back("pods", &primary, own.clone()).await, Ok(0));
    let leases: Vec<_> = client
        .held("pods", &secondary)
        .await
        .unwrap()
        .iter()
        .map(|lease| lease.id)
        .collect();
    assert_eq!(client.take_back("pods", &secondary, leases[..1].to_vec()).await, Ok(1));
    assert_eq!(client.take_back("pods", &secondary, leases.clone()).await, Ok(1));
    assert_eq!(client.take_back("pods", &primary, own).await, Ok(1));
    assert_eq!(client.take_back("pods", &secondary, leases).await, Ok(0));
    assert!(client.owners("pods", CLUSTER).await.unwrap().is_empty());
}
