//! Cluster API's claims on real API servers, and `clusterctl move` from one to the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use berth_e2e::{Scene, Seen, wait_for};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::moved::{create_in, delete_in_source};
use crate::site::{Site, kill};

/// How many claims of each of the two versions.
const CLAIMS: usize = 20;
const POOL: &str = "lan";
const CLUSTER: &str = "blue";

/// IPAddresses by the name of their claim.
type Given = BTreeMap<String, DynamicObject>;

/// Leaves claims, which are moved later.
pub async fn claims_of_both_versions_get_an_address_each(source: &Site) {
    install(source).await;
    create_pool(&source.scene).await;
    let cluster = json!({"metadata": {"name": CLUSTER}, "spec": {"paused": false}});
    create(&clusters(&source.scene), "cluster.x-k8s.io/v1beta2", "Cluster", cluster).await;
    // A claim that can't be served holds up no other.
    claim(&source.scene, "v1beta2", "nowhere", "no-such-pool", json!({})).await;
    let first = start(source, "first");
    claim(
        &source.scene,
        "v1beta2",
        "asks",
        POOL,
        json!({"berth.dev/ip-address": "10.50.0.77"}),
    )
    .await;
    for number in 0..CLAIMS {
        for version in ["v1beta1", "v1beta2"] {
            claim(&source.scene, version, &format!("{version}-{number}"), POOL, json!({})).await;
        }
        if number == CLAIMS / 2 {
            until_ready(&source.scene, 4).await;
            kill(&first);
        }
    }
    let _second = start(source, "second");
    let given = until_ready(&source.scene, 2 * CLAIMS + 1).await;
    check(&source.scene, &given).await;
    assert_eq!(given["asks"].data["spec"]["address"], "10.50.0.77");
    assert_eq!(source.owned(POOL).await.unwrap(), given.len());
    let nowhere = claims(&source.scene).get("nowhere").await.unwrap();
    let ready = &nowhere.data["status"]["conditions"][0];
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("PoolNotReady"))
    );

    // A claim that is deleted gives its address back, and its IPAddress goes with it.
    delete(&source.scene, "v1beta1-0").await;
    delete(&source.scene, "nowhere").await;
    let left = given.len() - 1;
    until_owned(source, left).await;
    assert_eq!(addresses(&source.scene).get_opt("v1beta1-0").await.unwrap(), None);
}

pub async fn a_move_to_another_api_server_keeps_every_address(source: &Site, target: &Site) {
    install(target).await;
    let before = ready(&source.scene).await.unwrap();
    pause(&source.scene, true).await;
    // Pools are not in a namespace, so a move leaves them out: they must be created in the target.
    create_pool(&target.scene).await;
    let cluster = json!({"metadata": {"name": CLUSTER}, "spec": {"paused": true}});
    create(&clusters(&target.scene), "cluster.x-k8s.io/v1beta2", "Cluster", cluster).await;
    // Half of the claims are created before a controller runs there, half while it runs.
    let names: Vec<&String> = before.keys().collect();
    let (early, late) = names.split_at(names.len() / 2);
    for name in early {
        create_in(&source.scene, &target.scene, name).await;
    }
    let _running = start(target, "target");
    until_owned(target, early.len()).await;
    for name in late {
        create_in(&source.scene, &target.scene, name).await;
    }
    until_owned(target, before.len()).await;
    // New claims come meanwhile, and get other addresses.
    for number in 0..CLAIMS {
        let metadata = json!({"name": format!("new-{number}")});
        let object = json!({"metadata": metadata, "spec": {"poolRef": pool_ref(POOL)}});
        let api = claims(&target.scene);
        create(&api, "ipam.cluster.x-k8s.io/v1beta2", "IPAddressClaim", object).await;
    }
    let mut names: BTreeSet<String> = (0..CLAIMS).map(|number| format!("new-{number}")).collect();
    wait_for(&target.scene, "newcomers have an address", async || {
        let found = ready(&target.scene).await?;
        let missing = names.iter().filter(|name| !found.contains_key(*name)).count();
        Ok(seen(missing == 0, &missing))
    })
    .await
    .unwrap();
    for name in before.keys() {
        delete_in_source(&source.scene, name).await;
    }
    until_owned(source, 0).await;
    pause(&target.scene, false).await;
    names.extend(before.keys().cloned());
    let after = until_ready(&target.scene, names.len()).await;
    assert_eq!(after.keys().cloned().collect::<BTreeSet<_>>(), names);
    check(&target.scene, &after).await;
    for (name, address) in &before {
        assert_eq!(after[name].data["spec"], address.data["spec"], "{name}");
    }
    assert_eq!(target.owned(POOL).await.unwrap(), after.len());
    // A claim that was moved is deleted as any other.
    delete(&target.scene, "asks").await;
    until_owned(target, after.len() - 1).await;
    assert_eq!(addresses(&target.scene).get_opt("asks").await.unwrap(), None);
}

/// Our kinds and rights, and Cluster API's kinds.
async fn install(site: &Site) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    site.apply_printed(&["crds"]).unwrap();
    for file in [
        "../deploy/rbac/controller.yaml",
        "../deploy/rbac/claim.yaml",
        "machines/cluster-api.yaml",
    ] {
        site.scene.cluster.apply(&repository.join(file)).unwrap();
    }
    let wait = "wait --for=condition=Established crd --all";
    site.kubectl(wait).unwrap();
}

fn start(site: &Site, name: &str) -> berth_testbed::Component {
    let kubeconfig = berth_e2e::roles::of_controller(&site.scene).unwrap();
    // A process that is killed would otherwise hold its Lease for a while.
    let flags = ["--controllers=subnet,claim", "--leader-elect=false"];
    site.start(&format!("claims-{name}"), "controller", &kubeconfig, &flags)
}

async fn create_pool(scene: &Scene) {
    let spec = json!({
        "use": "machines", "cidrs": ["10.50.0.0/24"],
        "gateways": ["10.50.0.1"], "dns": ["10.50.0.53"],
    });
    let subnets = Api::<berth_api::Subnet>::all(scene.client.clone());
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
        "metadata": {"name": POOL}, "spec": spec,
    });
    let object = serde_json::from_value(object).unwrap();
    subnets.create(&PostParams::default(), &object).await.unwrap();
}

fn pool_ref(pool: &str) -> Value {
    json!({"apiGroup": "berth.dev", "kind": "Subnet", "name": pool})
}

async fn claim(scene: &Scene, version: &str, name: &str, pool: &str, annotations: Value) {
    let object = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"clusterName": CLUSTER, "poolRef": pool_ref(pool)},
    });
    let api = crate::moved::claims_in(scene, version);
    let version = format!("ipam.cluster.x-k8s.io/{version}");
    create(&api, &version, "IPAddressClaim", object).await;
}

async fn create(api: &Api<DynamicObject>, version: &str, kind: &str, mut object: Value) {
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn pause(scene: &Scene, paused: bool) {
    let patch = json!({"spec": {"paused": paused}});
    clusters(scene)
        .patch(CLUSTER, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn delete(scene: &Scene, name: &str) {
    claims(scene).delete(name, &DeleteParams::background()).await.unwrap();
}

/// The IPAddresses of the claims that are Ready.
async fn ready(scene: &Scene) -> Result<Given> {
    let mut found = Given::new();
    let given = addresses(scene).list(&ListParams::default()).await?;
    let given: Given = given.into_iter().map(|object| (object.name_any(), object)).collect();
    for claim in claims(scene).list(&ListParams::default()).await? {
        let condition = &claim.data["status"]["conditions"][0];
        let named = claim.data["status"]["addressRef"]["name"].as_str().unwrap_or_default();
        if condition["type"] == "Ready" && condition["status"] == "True" {
            found.extend(given.get(named).map(|address| (claim.name_any(), address.clone())));
        }
    }
    Ok(found)
}

/// Waits until at least `count` claims are Ready, and returns all that are.
async fn until_ready(scene: &Scene, count: usize) -> Given {
    wait_for(scene, "claims are ready", async || {
        let found = ready(scene).await?.len();
        Ok(seen(found >= count, &found))
    })
    .await
    .unwrap();
    ready(scene).await.unwrap()
}

async fn until_owned(site: &Site, count: usize) {
    wait_for(&site.scene, &format!("{count} addresses are owned"), async || {
        let owned = site.owned(POOL).await?;
        let given = addresses(&site.scene).list(&ListParams::default()).await?.items.len();
        Ok(seen(owned == count && given == count, &(owned, given)))
    })
    .await
    .unwrap();
}

fn seen(there: bool, what: &impl std::fmt::Debug) -> Seen {
    if there {
        Seen::There
    } else {
        Seen::NotYet(format!("{what:?}"))
    }
}

/// Checks that the IPAddresses are as Cluster API's contract requires, and that none is given
/// twice.
async fn check(scene: &Scene, given: &Given) {
    let mut seen = BTreeSet::new();
    for (name, address) in given {
        let spec = &address.data["spec"];
        assert!(seen.insert(spec["address"].to_string()), "{name}: {spec}");
        assert_eq!(address.name_any(), *name);
        assert_eq!((&spec["prefix"], &spec["gateway"]), (&json!(24), &json!("10.50.0.1")));
        assert_eq!(address.annotations()["berth.dev/dns-servers"], "10.50.0.53");
        assert!(
            address.finalizers().contains(&"berth.dev/ip-address".to_owned()),
            "{name}"
        );
        let claim = claims(scene).get(name).await.unwrap();
        let owners = address.owner_references();
        let of_claim = owners.iter().find(|owner| owner.kind == "IPAddressClaim").unwrap();
        assert_eq!(Some(&of_claim.uid), claim.metadata.uid.as_ref(), "{name}");
        assert!(owners.iter().any(|owner| owner.kind == "Subnet"), "{name}: {owners:?}");
    }
    for kept in ["10.50.0.0", "10.50.0.1", "10.50.0.53", "10.50.0.255"] {
        assert!(!seen.contains(&format!("{kept:?}")), "{kept}");
    }
}

fn claims(scene: &Scene) -> Api<DynamicObject> {
    crate::moved::claims_in(scene, "v1beta2")
}

fn addresses(scene: &Scene) -> Api<DynamicObject> {
    crate::moved::addresses(scene)
}

fn clusters(scene: &Scene) -> Api<DynamicObject> {
    crate::moved::api(scene, "cluster.x-k8s.io", "v1beta2", "Cluster", "clusters")
}
