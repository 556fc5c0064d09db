//! What can't be is refused at the door or said in a condition, with the field and the fix. Nothing
//! changes, and others do not notice.

use berth_api::{NodeNetworkConfig, Subnet, names};
use berth_testkit::until;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::play;
use super::scene::{Scene, condition, settle};

/// What the API server says to a Subnet with this spec.
async fn refusal(scene: &Scene, spec: Value) -> String {
    let subnet: Subnet =
        serde_json::from_value(json!({"metadata": {"name": "bad"}, "spec": spec})).unwrap();
    let error = scene
        .subnets()
        .create(&PostParams::default(), &subnet)
        .await
        .unwrap_err();
    error.to_string()
}

#[test]
fn an_invalid_subnet_is_refused_with_the_field_and_the_fix() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        for (spec, field, fix) in [
            (json!({"cidrs": ["10.64.0.1/16"]}), "spec.cidrs[0]", "clear the bits"),
            (
                json!({"cidrs": ["10.64.0.0/16", "10.64.9.0/24"]}),
                "spec.cidrs",
                "remove one of the two",
            ),
            (
                json!({"cidrs": ["10.64.0.0/16"], "gateways": ["10.65.0.1"]}),
                "spec.gateways",
                "take an address in one of them",
            ),
            (
                json!({"cidrs": ["10.64.0.0/16"], "excludes": ["10.65.0.0/28"]}),
                "spec.excludes",
                "append its CIDR",
            ),
            (
                json!({"cidrs": ["10.64.0.0/16"], "ranges": ["10.64.0.9-10.64.0.1"]}),
                "spec.ranges[0]",
                "swap its ends",
            ),
            (
                json!({
                    "cidrs": ["10.64.0.0/16"],
                    "exhaustion": {"enterPercent": 50, "leavePercent": 90},
                }),
                "spec.exhaustion.leavePercent",
                "must be lower than enterPercent",
            ),
            (
                json!({
                    "cidrs": ["10.64.0.0/16"],
                    "exhaustion": {"enterPercent": 101, "leavePercent": 90},
                }),
                "spec.exhaustion.enterPercent",
                "100",
            ),
            (
                json!({
                    "use": "node-cidrs", "cidrs": ["10.64.0.0/26"], "unitLengths": {"ipv4": 24},
                }),
                "spec.cidrs",
                "use a larger CIDR",
            ),
            (
                json!({"cidrs": ["10.64.0.0/16"], "scaler": {"batchSize": 0}}),
                "spec.scaler.batchSize",
                "1",
            ),
        ] {
            let said = refusal(&scene, spec.clone()).await;
            assert!(said.contains(field) && said.contains(fix), "{spec}: {said}");
        }
    });
}

#[test]
fn a_subnet_in_use_can_not_lose_what_is_in_use() {
    play(async |scene: Scene| {
        let controller = scene.start();
        scene
            .subnet("pods", json!({"cidrs": ["10.64.0.0/24", "10.65.0.0/24"]}))
            .await;
        scene.node("n1").await;
        scene.container("n1").await;
        for cidrs in [json!(["10.65.0.0/24"]), json!(["10.64.0.0/25", "10.65.0.0/24"])] {
            let patch = Patch::Merge(json!({"spec": {"cidrs": cidrs}}));
            let refused = scene.subnets().patch("pods", &PatchParams::default(), &patch).await;
            let said = refused.unwrap_err().to_string();
            assert!(
                said.contains("spec.cidrs") && said.contains("may only be appended"),
                "{said}"
            );
        }
        assert_eq!(controller.allocator.subnets().await.unwrap(), ["pods"]);
        scene.ask("n1", 2, &[]).await;
        scene.with_addresses("n1", 2).await;
    });
}

#[test]
fn an_invalid_stored_subnet_is_reported_in_a_condition() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        loosen(&scene).await;
        scene.subnet("bad", json!({"cidrs": ["10.64.0.1/16"]})).await;
        scene.subnet("pods", json!({"cidrs": ["10.65.0.0/24"]})).await;
        let refused = |subnet: &Subnet| condition(subnet, "Ready").0 == "False";
        let subnet = scene.subnet_once("bad", "is refused", refused).await;
        let (_, reason, message) = condition(&subnet, "Ready");
        assert_eq!(reason, "Invalid");
        assert!(
            message.starts_with("spec.cidrs[0]: \"10.64.0.1/16\" has host bits set"),
            "{message}"
        );
        assert_eq!(condition(&subnet, "Exhausted").0, "Unknown");
        scene.node("n1").await;
        assert_eq!(scene.container("n1").await.subnet_name, "pods");

        // One that is in use and is shrunk past its rules goes on as it was.
        scene
            .patch(&scene.subnets(), "pods", json!({"spec": {"cidrs": ["10.66.0.0/24"]}}))
            .await;
        let subnet = scene.subnet_once("pods", "is refused", refused).await;
        let (_, reason, message) = condition(&subnet, "Ready");
        assert_eq!(reason, "InUse");
        assert!(
            message.contains("spec.cidrs: 10.65.0.1/32 is in use") && message.contains("goes on"),
            "{message}"
        );
        scene.ask("n1", 2, &[]).await;
        let container = scene.with_addresses("n1", 2).await;
        assert!(
            container
                .ip_assignments
                .iter()
                .all(|assignment| assignment.ip.starts_with("10.65.0."))
        );
        assert_eq!(container.subnet_address_space, "10.65.0.0/24");
        // Put right, it is ready again.
        scene
            .patch(&scene.subnets(), "pods", json!({"spec": {"cidrs": ["10.65.0.0/24"]}}))
            .await;
        scene.ready("pods").await;
    });
}

/// Serves Subnets without their rules, as if they had been created when there were none.
async fn loosen(scene: &Scene) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let api = kube::Api::<CustomResourceDefinition>::all(scene.client.clone());
    let name = "subnets.berth.dev";
    let mut definition = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
    strip(&mut definition);
    let definition = serde_json::from_value(definition).unwrap();
    api.replace(name, &PostParams::default(), &definition).await.unwrap();
    // The server takes a moment to follow.
    let probe = json!({"metadata": {"name": "probe"}, "spec": {"cidrs": ["10.0.0.1/8"]}});
    let probe: Subnet = serde_json::from_value(probe).unwrap();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let accepted = async || scene.subnets().create(&params, &probe).await.ok();
    until("rules are off", accepted).await;
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[test]
fn an_invalid_request_is_refused_and_the_last_count_is_kept() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene
            .subnet("pods", json!({"cidrs": ["10.64.0.0/24"], "scaler": {"maxIPCount": 8}}))
            .await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 4, &[]).await;
        scene.with_addresses("n1", 4).await;
        for (count, fix) in [(-1, "0"), (9, "ask for at most that")] {
            let patch = Patch::Merge(json!({"spec": {"requestedIPCount": count}}));
            let refused = scene.nncs().patch("n1", &PatchParams::default(), &patch).await;
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("spec.requestedIPCount") && said.contains(fix), "{said}");
        }
        settle().await;
        scene.with_addresses("n1", 4).await;
    });
}

#[test]
fn an_nnc_created_above_the_maximum_is_warned_and_capped() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene
            .subnet("pods", json!({"cidrs": ["10.64.0.0/24"], "scaler": {"maxIPCount": 8}}))
            .await;
        scene.ready("pods").await;
        // There is no status yet that a rule could hold it to.
        let metadata = json!({"name": "n1", "namespace": names::NAMESPACE});
        let nnc = json!({"metadata": metadata, "spec": {"requestedIPCount": 40}});
        scene.create(&scene.nncs(), nnc).await;
        scene.node("n1").await;
        scene.with_addresses("n1", 8).await;
        let note = scene.event("NodeNetworkConfig", "n1", "TooManyRequested").await;
        for part in [
            "spec.requestedIPCount: 40 is more than the 8",
            "ask for at most that",
            "scaler.maxIPCount of Subnet pods",
        ] {
            assert!(note.contains(part), "{note}");
        }
    });
}

#[test]
fn a_node_that_no_subnet_takes_is_told_why_once() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        let zone = |zone: &str| json!({"matchLabels": {"zone": zone}});
        scene
            .subnet("east", json!({"cidrs": ["10.64.0.0/24"], "nodeSelector": zone("east")}))
            .await;
        scene.ready("east").await;
        scene
            .subnet("west", json!({"cidrs": ["10.64.0.0/25"], "nodeSelector": zone("west")}))
            .await;
        let move_to = async |zone: &str| {
            let labels = json!({"metadata": {"labels": {"zone": zone}}});
            scene.patch(&scene.nodes(), "n1", labels).await;
        };
        scene.node("n1").await;
        let note = scene.event("Node", "n1", "NoSubnet").await;
        assert!(note.contains("label the node so that the nodeSelector"), "{note}");
        move_to("north").await;
        settle().await;
        let about_node = async || {
            let events = Api::<Event>::all(scene.client.clone());
            let events = events.list(&ListParams::default()).await.unwrap().items;
            let ours = events
                .into_iter()
                .filter(|event| event.reason.as_deref() == Some("NoSubnet"));
            let times = |event: Event| event.series.map_or(1, |series| series.count);
            ours.map(times).sum::<i32>()
        };
        assert_eq!(about_node().await, 1);
        move_to("east").await;
        scene.container("n1").await;

        scene.node("n2").await;
        let labels = json!({"metadata": {"labels": {"zone": "west"}}});
        scene.patch(&scene.nodes(), "n2", labels).await;
        let note = scene.event("Node", "n2", "NoSubnet").await;
        assert!(note.contains("Subnet west selects this node"), "{note}");
    });
}

#[test]
fn a_lowered_maximum_keeps_addresses_but_gives_no_more() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 16, &[]).await;
        let before = scene.with_addresses("n1", 16).await;
        scene
            .patch(&scene.subnets(), "pods", json!({"spec": {"scaler": {"maxIPCount": 8}}}))
            .await;
        let lowered = |nnc: &NodeNetworkConfig| {
            let scaler = nnc.status.as_ref().and_then(|status| status.scaler);
            scaler.is_some_and(|scaler| scaler.max_ip_count == 8)
        };
        scene.nnc("n1", "has the lower maximum", lowered).await;
        let note = scene.event("NodeNetworkConfig", "n1", "TooManyRequested").await;
        assert!(note.contains("spec.requestedIPCount: 16 is more than the 8"), "{note}");
        assert_eq!(scene.container("n1").await, before);
        let names: Vec<String> = before.ip_assignments[..10]
            .iter()
            .map(|assignment| assignment.name.clone())
            .collect();
        scene.ask("n1", 16, &names).await;
        scene.with_addresses("n1", 8).await;
    });
}
