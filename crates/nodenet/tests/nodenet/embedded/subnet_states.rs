//! Whether a subnet runs short, as agents are told.

use berth_api::ClusterSubnetState;
use berth_testkit::until;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::play;
use super::scene::{Scene, names_of, settle};

async fn once(scene: &Scene, exhausted: bool) -> ClusterSubnetState {
    let is = |state: &ClusterSubnetState| {
        state
            .status
            .as_ref()
            .is_some_and(|status| status.exhausted == exhausted)
    };
    let what = format!("the subnet is said to be exhausted: {exhausted}");
    until(&what, async || scene.states().get_opt("pods").await.unwrap().filter(is)).await
}

/// 14 addresses in batches of 4; exhausted above 12. It leaves below 8.4, if what would be asked
/// for then fits into 12.
async fn with_one_node(scene: &Scene) {
    let exhaustion = json!({"enterPercent": 90, "leavePercent": 60});
    scene
        .subnet(
            "pods",
            json!({
                "cidrs": ["10.64.0.0/28"], "exhaustion": exhaustion, "reuseDelay": "1s",
                "scaler": {"batchSize": 4},
            }),
        )
        .await;
    scene.node("n1").await;
    scene.container("n1").await;
}

#[test]
fn exhaustion_enters_and_leaves_at_different_thresholds() {
    play(async |scene: Scene| {
        let first = scene.start();
        with_one_node(&scene).await;
        let state = once(&scene, false).await;
        assert_eq!(state.owner_references()[0].kind, "Subnet");
        assert!(state.status.unwrap().timestamp.parse::<Timestamp>().is_ok());
        scene.ask("n1", 12, &[]).await;
        let held = scene.with_addresses("n1", 12).await;
        once(&scene, true).await;
        // Between the two it stays as it is, also for one who was not there when it began.
        scene.ask("n1", 9, &names_of(&held)[..3]).await;
        scene.with_addresses("n1", 9).await;
        settle().await;
        first.stop().await;
        let _second = scene.start();
        settle().await;
        let before = once(&scene, true).await;
        settle().await;
        assert_eq!(
            once(&scene, true).await.resource_version(),
            before.resource_version(),
            "written on change only"
        );
        scene.ask("n1", 7, &names_of(&held)[..5]).await;
        once(&scene, false).await;
    });
}

#[test]
fn a_deleted_state_is_recreated_while_its_subnet_exists() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/28"]})).await;
        scene
            .subnet("m", json!({"use": "machines", "cidrs": ["10.65.0.0/28"]}))
            .await;
        let first = once(&scene, false).await;
        scene.delete(&scene.states(), "pods").await;
        let is_another = |state: &ClusterSubnetState| state.uid() != first.uid();
        until("it is there again", async || {
            scene.states().get_opt("pods").await.unwrap().filter(is_another)
        })
        .await;
        assert!(
            scene.states().get_opt("m").await.unwrap().is_none(),
            "no agent draws on it"
        );
        // Somebody else's is left alone.
        scene
            .create(&scene.states(), json!({"metadata": {"name": "theirs"}}))
            .await;
        scene.delete(&scene.subnets(), "pods").await;
        until("it is gone", async || {
            scene.states().get_opt("pods").await.unwrap().is_none().then_some(())
        })
        .await;
        assert!(scene.states().get_opt("theirs").await.unwrap().is_some());
    });
}
