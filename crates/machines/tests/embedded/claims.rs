//! Cluster API's claims.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_machines::capi::{ADDRESS, DNS_SERVERS, FAMILY, FINALIZER};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::play;
use crate::scene::{Scene, settle, until};

const GROUP: &str = "ipam.cluster.x-k8s.io";

fn api(scene: &Scene, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Api::namespaced_with(scene.client.clone(), "default", &resource)
}

fn claims(scene: &Scene) -> Api<DynamicObject> {
    api(scene, GROUP, "v1beta2", "IPAddressClaim", "ipaddressclaims")
}

fn addresses(scene: &Scene) -> Api<DynamicObject> {
    api(scene, GROUP, "v1beta2", "IPAddress", "ipaddresses")
}

async fn pool(scene: &Scene, name: &str, spec: Value) {
    let mut spec = spec;
    spec["use"] = "machines".into();
    let object = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": name}, "spec": spec});
    let object = serde_json::from_value(object).unwrap();
    scene.subnets().create(&PostParams::default(), &object).await.unwrap();
    scene.ready(name).await;
}

fn object(name: &str, pool: &str, annotations: &Value, spec: &Value) -> DynamicObject {
    let mut spec = spec.clone();
    spec["poolRef"] = json!({"apiGroup": "berth.dev", "kind": "Subnet", "name": pool});
    let object = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
        "metadata": {"name": name, "annotations": annotations}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

async fn claim_with(scene: &Scene, name: &str, pool: &str, annotations: Value) {
    let object = object(name, pool, &annotations, &json!({}));
    claims(scene).create(&PostParams::default(), &object).await.unwrap();
}

async fn claim(scene: &Scene, name: &str, pool: &str) {
    claim_with(scene, name, pool, json!({})).await;
}

fn ready(claim: &DynamicObject) -> (String, String, String) {
    let conditions = claim.data.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let text = |field: &str| {
        found
            .and_then(|found| found[field].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("status"), text("reason"), text("message"))
}

/// Its IPAddress, once the claim is ready.
async fn address(scene: &Scene, name: &str) -> DynamicObject {
    until(&format!("{name} is ready"), async || {
        let claim = claims(scene).get_opt(name).await.unwrap()?;
        let named = claim.data.pointer("/status/addressRef/name").and_then(Value::as_str);
        (ready(&claim).0 == "True" && named == Some(name)).then_some(())
    })
    .await;
    addresses(scene).get(name).await.unwrap()
}

async fn ip(scene: &Scene, name: &str) -> String {
    address(scene, name).await.data["spec"]["address"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn fails(scene: &Scene, name: &str, reason: &str) -> String {
    until(&format!("{name} says {reason}"), async || {
        let claim = claims(scene).get_opt(name).await.unwrap()?;
        let (status, found, message) = ready(&claim);
        (status == "False" && found == reason).then_some(message)
    })
    .await
}

async fn delete(scene: &Scene, name: &str) {
    claims(scene).delete(name, &DeleteParams::background()).await.unwrap();
}

#[test]
fn a_claim_gets_an_address_as_the_contract_says() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2", "v1beta1"]).await;
        let running = scene.start(&[]);
        pool(
            &scene,
            "lan",
            json!({"cidrs": ["10.0.0.0/24"], "gateways": ["10.0.0.1"], "dns": ["10.0.0.53"]}),
        )
        .await;
        claim(&scene, "c1", "lan").await;
        let found = address(&scene, "c1").await;
        let spec = json!({
            "address": "10.0.0.2", "prefix": 24, "gateway": "10.0.0.1", "claimRef": {"name": "c1"},
            "poolRef": {"apiGroup": "berth.dev", "kind": "Subnet", "name": "lan"},
        });
        assert_eq!(found.data["spec"], spec);
        assert_eq!(found.metadata.finalizers.clone().unwrap(), [FINALIZER]);
        assert_eq!(found.annotations()[DNS_SERVERS], "10.0.0.53");
        let owners = found.metadata.owner_references.clone().unwrap();
        let kinds: Vec<_> = owners
            .iter()
            .map(|owner| (owner.kind.as_str(), owner.controller))
            .collect();
        assert_eq!(kinds, [("IPAddressClaim", Some(true)), ("Subnet", Some(false))]);
        assert!(owners.iter().all(|owner| owner.block_owner_deletion == Some(true)));
        delete(&scene, "c1").await;
        until("its IPAddress is gone", async || {
            addresses(&scene).get_opt("c1").await.unwrap().is_none().then_some(())
        })
        .await;
        until("its address is back", async || {
            (scene.owned("lan").await == 0).then_some(())
        })
        .await;
        running.stop().await;
    });
}

#[test]
fn the_older_version_is_served_where_there_is_no_other() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta1"]).await;
        let running = scene.start(&[]);
        pool(&scene, "lan", json!({"cidrs": ["10.0.0.0/24"]})).await;
        let mut object = object("c1", "lan", &json!({}), &json!({}));
        object.types.as_mut().unwrap().api_version = "ipam.cluster.x-k8s.io/v1beta1".to_owned();
        let old = |kind, plural| api(&scene, GROUP, "v1beta1", kind, plural);
        old("IPAddressClaim", "ipaddressclaims")
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        until("it has an address", async || {
            old("IPAddress", "ipaddresses").get_opt("c1").await.unwrap()
        })
        .await;
        running.stop().await;
    });
}

#[test]
fn a_full_pool_says_so_and_goes_on_when_an_address_comes_free() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start(&[]);
        pool(
            &scene,
            "lan",
            json!({"cidrs": ["10.0.0.0/24"], "ranges": ["10.0.0.10-10.0.0.11"]}),
        )
        .await;
        for name in ["c1", "c2"] {
            claim(&scene, name, "lan").await;
            ip(&scene, name).await;
        }
        claim(&scene, "c3", "lan").await;
        let why = fails(&scene, "c3", "PoolExhausted").await;
        assert!(why.contains("10.0.0.0/24"), "{why}");
        assert_eq!(scene.metric("berth_machine_waiting{owner=\"Claim\"}"), 1);
        assert!(scene.metric("berth_machine_full_total{owner=\"Claim\"}") >= 1);
        delete(&scene, "c1").await;
        assert!(ip(&scene, "c3").await.starts_with("10.0.0.1"));
        assert_eq!(scene.metric("berth_machine_waiting{owner=\"Claim\"}"), 0);
        assert_eq!(scene.metric("berth_machine_allocations_total{owner=\"Claim\"}"), 3);
        running.stop().await;
    });
}

#[test]
fn bad_claims_say_why_and_block_nobody() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start(&[]);
        pool(&scene, "lan", json!({"cidrs": ["10.0.0.0/24"]})).await;
        claim(&scene, "a-no-pool", "nowhere").await;
        claim_with(&scene, "a-no-address", "lan", json!({ADDRESS: "x"})).await;
        claim_with(&scene, "a-outside", "lan", json!({ADDRESS: "10.9.0.1"})).await;
        claim_with(&scene, "a-no-family", "lan", json!({FAMILY: "ipv6"})).await;
        claim(&scene, "good", "lan").await;
        ip(&scene, "good").await;
        assert!(
            fails(&scene, "a-no-pool", "PoolNotReady")
                .await
                .contains("there is no Subnet nowhere")
        );
        assert!(
            fails(&scene, "a-no-address", "AllocationFailed")
                .await
                .contains("\"x\" is not an IP address")
        );
        assert!(
            fails(&scene, "a-outside", "AllocationFailed")
                .await
                .contains("not in Subnet lan")
        );
        assert!(
            fails(&scene, "a-no-family", "AllocationFailed")
                .await
                .contains("no IPv6")
        );
        // Once the pool is there, the claim for it goes on by itself.
        pool(&scene, "nowhere", json!({"cidrs": ["10.2.0.0/24"]})).await;
        ip(&scene, "a-no-pool").await;
        running.stop().await;
    });
}

#[test]
fn an_address_and_a_family_can_be_asked_for() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start(&[]);
        pool(&scene, "lan", json!({"cidrs": ["10.0.0.0/24", "fd00::/64"]})).await;
        claim_with(&scene, "c1", "lan", json!({ADDRESS: "10.0.0.77"})).await;
        assert_eq!(ip(&scene, "c1").await, "10.0.0.77");
        claim_with(&scene, "c2", "lan", json!({ADDRESS: "10.0.0.77"})).await;
        fails(&scene, "c2", "AllocationFailed").await;
        claim_with(&scene, "c3", "lan", json!({FAMILY: "ipv6"})).await;
        assert!(ip(&scene, "c3").await.starts_with("fd00::"));
        claim(&scene, "c4", "lan").await;
        assert!(ip(&scene, "c4").await.starts_with("10.0.0."));
        running.stop().await;
    });
}

#[test]
fn two_pools_of_one_lan_with_disjoint_ranges_are_both_ready() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start(&[]);
        pool(
            &scene,
            "a",
            json!({"cidrs": ["10.0.0.0/24"], "ranges": ["10.0.0.10-10.0.0.19"]}),
        )
        .await;
        pool(
            &scene,
            "b",
            json!({"cidrs": ["10.0.0.0/24"], "ranges": ["10.0.0.20-10.0.0.29"]}),
        )
        .await;
        claim(&scene, "c1", "a").await;
        claim(&scene, "c2", "b").await;
        assert_eq!(ip(&scene, "c1").await, "10.0.0.10");
        assert_eq!(ip(&scene, "c2").await, "10.0.0.20");
        running.stop().await;
    });
}

#[test]
fn a_range_that_is_in_use_stays() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start(&[]);
        pool(
            &scene,
            "a",
            json!({"cidrs": ["10.0.0.0/24"], "ranges": ["10.0.0.10-10.0.0.19"]}),
        )
        .await;
        claim(&scene, "c1", "a").await;
        ip(&scene, "c1").await;
        let patch = json!({"spec": {"ranges": ["10.0.0.30-10.0.0.39"]}});
        scene
            .subnets()
            .patch("a", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        until("the change is refused", async || {
            let subnet = scene.subnets().get("a").await.unwrap();
            let mut conditions = subnet.status?.conditions.into_iter();
            conditions
                .find(|found| found.type_ == "Ready" && found.reason == "InUse")
                .map(drop)
        })
        .await;
        running.stop().await;
    });
}

#[test]
fn a_claim_waits_for_its_cluster_but_its_deletion_does_not() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start(&[]);
        pool(&scene, "lan", json!({"cidrs": ["10.0.0.0/24"]})).await;
        let of_cluster = object("c1", "lan", &json!({}), &json!({"clusterName": "blue"}));
        claims(&scene)
            .create(&PostParams::default(), &of_cluster)
            .await
            .unwrap();
        settle().await;
        assert!(addresses(&scene).get_opt("c1").await.unwrap().is_none());
        let clusters = api(&scene, "cluster.x-k8s.io", "v1beta2", "Cluster", "clusters");
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "blue"}, "spec": {"paused": true},
        });
        let cluster = serde_json::from_value(cluster).unwrap();
        clusters.create(&PostParams::default(), &cluster).await.unwrap();
        settle().await;
        assert!(addresses(&scene).get_opt("c1").await.unwrap().is_none());
        let patch = json!({"spec": {"paused": false}});
        clusters
            .patch("blue", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        ip(&scene, "c1").await;
        clusters.delete("blue", &DeleteParams::default()).await.unwrap();
        delete(&scene, "c1").await;
        until("its address is back", async || {
            (scene.owned("lan").await == 0).then_some(())
        })
        .await;
        running.stop().await;
    });
}

#[test]
fn clusterctl_move_keeps_every_address() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start(&[]);
        pool(&scene, "lan", json!({"cidrs": ["10.0.0.0/24"]})).await;
        // As the objects come: paused, each with its status, the IPAddress with an owner of the new
        // UID and the finalizer that it had.
        let paused = object("moved", "lan", &json!({"cluster.x-k8s.io/paused": ""}), &json!({}));
        let paused = claims(&scene).create(&PostParams::default(), &paused).await.unwrap();
        let address = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
            "metadata": {"name": "moved", "finalizers": [FINALIZER], "ownerReferences": [{
                "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "moved",
                "uid": paused.metadata.uid, "controller": true,
            }]},
            "spec": {
                "address": "10.0.0.1", "prefix": 24, "claimRef": {"name": "moved"},
                "poolRef": {"apiGroup": "berth.dev", "kind": "Subnet", "name": "lan"},
            },
        });
        let address: DynamicObject = serde_json::from_value(address).unwrap();
        addresses(&scene)
            .create(&PostParams::default(), &address)
            .await
            .unwrap();
        until("it is claimed while it is paused", async || {
            (scene.owned("lan").await == 1).then_some(())
        })
        .await;
        claim(&scene, "other", "lan").await;
        assert_ne!(ip(&scene, "other").await, "10.0.0.1");
        let patch = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
        claims(&scene)
            .patch("moved", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        assert_eq!(ip(&scene, "moved").await, "10.0.0.1");
        running.stop().await;
    });
}

/// Its watches of claims begin late: what happens to claims meanwhile is known after everything
/// else.
fn late_to_see_claims(client: Client) -> Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let client = client.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            if is_watch && request.uri().path().ends_with("/ipaddressclaims") {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

#[test]
fn an_address_that_is_known_before_its_claim_is_kept() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start_with(late_to_see_claims(scene.client.clone()), &[]);
        pool(&scene, "lan", json!({"cidrs": ["10.0.0.0/24"]})).await;
        claim(&scene, "moved", "lan").await;
        let uid = claims(&scene).get("moved").await.unwrap().uid().unwrap();
        let address = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
            "metadata": {"name": "moved", "ownerReferences": [{
                "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
                "name": "moved", "uid": uid, "controller": true,
            }]},
            "spec": {
                "address": "10.0.0.9", "prefix": 24, "claimRef": {"name": "moved"},
                "poolRef": {"apiGroup": "berth.dev", "kind": "Subnet", "name": "lan"},
            },
        });
        let address: DynamicObject = serde_json::from_value(address).unwrap();
        let made = addresses(&scene)
            .create(&PostParams::default(), &address)
            .await
            .unwrap();
        assert_eq!(ip(&scene, "moved").await, "10.0.0.9");
        let found = addresses(&scene).get("moved").await.unwrap();
        assert_eq!(found.uid(), made.uid(), "it is the same object");
        running.stop().await;
    });
}

#[test]
fn many_claims_have_an_address_each_whoever_dies_meanwhile() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let mut running = scene.start(&[]);
        pool(&scene, "lan", json!({"cidrs": ["10.0.0.0/24"]})).await;
        for number in 0..100 {
            claim(&scene, &format!("c{number}"), "lan").await;
            if number % 40 == 20 {
                running.kill();
                running = scene.start(&[]);
            }
        }
        for number in 0..100 {
            ip(&scene, &format!("c{number}")).await;
        }
        let list = addresses(&scene).list(&ListParams::default()).await.unwrap();
        let seen: BTreeSet<String> = list
            .items
            .iter()
            .map(|item| item.data["spec"]["address"].to_string())
            .collect();
        assert_eq!((list.items.len(), seen.len()), (100, 100));
        for number in 0..100 {
            delete(&scene, &format!("c{number}")).await;
        }
        until("all are back", async || (scene.owned("lan").await == 0).then_some(())).await;
        running.stop().await;
    });
}

#[test]
fn the_address_of_a_claim_that_went_while_nobody_ran_comes_back() {
    play(async |scene| {
        scene.with_cluster_api(&["v1beta2"]).await;
        let running = scene.start(&[]);
        pool(&scene, "lan", json!({"cidrs": ["10.0.0.0/24"]})).await;
        claim(&scene, "c1", "lan").await;
        ip(&scene, "c1").await;
        running.stop().await;
        delete(&scene, "c1").await;
        settle().await;
        assert_eq!(scene.owned("lan").await, 1);
        let running = scene.start(&[]);
        until("it is back", async || (scene.owned("lan").await == 0).then_some(())).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.stop().await;
    });
}
