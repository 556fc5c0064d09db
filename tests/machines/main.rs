//! Machine IPAM as it is installed: `berth machine-ipam` as processes under their own role and as
//! the pod of a Deployment, the gate as a policy of a real kube-apiserver and as a webhook, Cluster
//! API's claims.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod claims;
mod deployment;
mod form;
mod moved;
mod site;
mod stage;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};

use berth_e2e::rights::{Asked, Audit};
use berth_e2e::{Scene, Seen, wait_for};
use berth_machines::machine::{Machine, Shape};
use kube::ResourceExt;
use site::{Site, kill};
use stage::{Stage, Step};

const MACHINES: usize = 200;

/// Each account, and a role that it has here.
const ROLES: [(&str, &str); 5] = [
    ("berth-machine-ipam", "berth-machine-ipam"),
    ("berth-controller", "berth-claim"),
    ("berth-controller", "berth-cluster"),
    ("berth-dashboard", "berth-dashboard-write"),
    ("berth-machine-ipam", "berth-webhook"),
];
/// Rights for cases that do not occur here.
const ELSEWHERE: [(&str, &str); 18] = [
    // After a conflict, an object is read again.
    ("berth-machine-ipam", "cluster.k8s.io/machines get"),
    ("berth-machine-ipam", "machine.k8s.io/machines get"),
    ("berth-machine-ipam", "berth.dev/subnets get"),
    ("berth-claim", "ipam.cluster.x-k8s.io/ipaddressclaims get"),
    ("berth-claim", "ipam.cluster.x-k8s.io/ipaddresses get"),
    // Unused blocks are deleted, and after a conflict a block is read again.
    ("berth-machine-ipam", "berth.dev/addressblocks delete"),
    ("berth-machine-ipam", "berth.dev/addressblocks get"),
    // No machine waits for an address, and nothing is wrong.
    ("berth-machine-ipam", "events.k8s.io/events create"),
    ("berth-machine-ipam", "events.k8s.io/events patch"),
    // Events in namespaces that the controller's own role does not cover.
    ("berth-claim", "events.k8s.io/events create"),
    ("berth-claim", "events.k8s.io/events patch"),
    ("berth-cluster", "events.k8s.io/events create"),
    ("berth-cluster", "events.k8s.io/events patch"),
    // The API server checks these by itself: for owner references, and when an apply creates an
    // object.
    ("berth-claim", "ipam.cluster.x-k8s.io/ipaddressclaims/finalizers update"),
    ("berth-cluster", "/serviceaccounts create"),
    ("berth-cluster", "apps/deployments create"),
    (
        "berth-webhook",
        "admissionregistration.k8s.io/mutatingwebhookconfigurations create",
    ),
    // Certificates are renewed after weeks.
    ("berth-webhook", "/secrets update"),
];

/// The second plugin checks that a client which writes an owner reference may hold up the deletion
/// of the owner.
const PLUGINS: &str =
    "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement";

/// As in Kubernetes before 1.36: no policy can gate.
const OLDER: [&str; 2] = [
    "--feature-gates=MutatingAdmissionPolicy=false",
    "--runtime-config=admissionregistration.k8s.io/v1/mutatingadmissionpolicies=false,\
     admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings=false",
];

/// All in one test: each part starts from what the one before has left.
#[tokio::test(flavor = "multi_thread")]
async fn machines_get_their_networks_step_by_step() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::of(directory.path()).unwrap();
    let seed = Scene::open("machines", |builder| {
        audit.on(builder.nodes(1).network(deployment::network).api_flag(PLUGINS))
    });
    let stage = Stage::open(seed.await.unwrap()).await.unwrap();
    the_gate_holds_with_the_controller_stopped(&stage).await;
    form::forms_write_under_their_own_roles(&stage.site).await;
    machines_pass_all_steps_in_order_when_the_leader_is_killed(&stage).await;
    every_address_comes_back(&stage).await;
    webhook::a_webhook_gates_where_there_is_no_policy(&stage).await;
    claims::claims_of_both_versions_get_an_address_each(&stage.site).await;

    // Served where pods of the first cluster reach it.
    let address = stage.site.scene.cluster.control_plane().address();
    let user = Scene::open("machines-user", |builder| {
        OLDER
            .iter()
            .fold(builder.address(address).api_flag(PLUGINS), |builder, flag| {
                builder.api_flag(flag)
            })
    });
    let user = Site::new(user.await.unwrap()).unwrap();
    deployment::the_deployment_of_a_cluster_runs(&stage.site, &user).await;
    claims::a_move_to_another_api_server_keeps_every_address(&stage.site, &user).await;
    rights_are_least(&stage.site.scene, &audit.asked().unwrap()).await;
}

/// Checks that some request needed each right, except those in `ELSEWHERE`.
async fn rights_are_least(scene: &Scene, asked: &Asked) {
    let mut unknown = Vec::new();
    for (account, role) in ROLES {
        let superfluous = asked.superfluous_of(scene, account, Some(role)).await.unwrap();
        let is_known = |right: &String| ELSEWHERE.contains(&(role, right.as_str()));
        let more = superfluous.into_iter().filter(|right| !is_known(right));
        unknown.extend(more.map(|right| format!("{role}: {right}")));
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

async fn the_gate_holds_with_the_controller_stopped(stage: &Stage) {
    stage.create("early-1", Shape::ProviderConfig).await;
    stage.create("early-2", Shape::ProviderSpec).await;
    for (name, shape) in [("early-1", Shape::ProviderConfig), ("early-2", Shape::ProviderSpec)] {
        let object = stage.machines(shape).get(name).await.unwrap();
        let machine = Machine::of(shape, &object);
        // From its very first version.
        assert!(machine.is_gated(), "{:?}", machine.metadata.annotations);
        assert_eq!(machine.network, Ok(None));
    }
    // Entries of others keep their order, and our entry is not added twice.
    let object = stage.create_with("early-3", "a,b").await;
    let list = Machine::of(Shape::ProviderConfig, &object)
        .initializers()
        .to_annotation();
    assert_eq!(list.as_deref(), Some("a,b,ipam.berth.dev"));
    let object = stage.create_with("early-4", "ipam.berth.dev").await;
    let list = Machine::of(Shape::ProviderConfig, &object)
        .initializers()
        .to_annotation();
    assert_eq!(list.as_deref(), Some("ipam.berth.dev"));
    stage.delete("early-3").await;
    stage.delete("early-4").await;
    // The provider runs, and would build them if the gate were open.
    assert!(
        stage.steps("early-1").iter().all(|step| *step == Step::Gated),
        "{:?}",
        stage.steps("early-1")
    );
}

async fn machines_pass_all_steps_in_order_when_the_leader_is_killed(stage: &Stage) {
    let network = "10.20.0.0/16,10.21.0.1,10.20.0.53";
    let one = stage.start("one", &[network]);
    stage.led().await;
    let other = stage.start("other", &[network]);
    let creating = futures::future::join_all((0..MACHINES).map(async |number| {
        stage.create(&format!("m{number}"), Shape::ProviderConfig).await;
    }));
    let killing = async {
        wait_for(&stage.site.scene, "a quarter has a network", async || {
            let count = stage.with_network().await?.len();
            Ok(if count >= MACHINES / 4 {
                Seen::There
            } else {
                Seen::NotYet(count.to_string())
            })
        })
        .await
        .unwrap();
        kill(&one);
    };
    tokio::join!(creating, killing);
    wait_for(&stage.site.scene, "all are provisioned", async || {
        let count = stage.provisioned().await?;
        Ok(if count == MACHINES + 2 {
            Seen::There
        } else {
            Seen::NotYet(count.to_string())
        })
    })
    .await
    .unwrap();
    // No address is given twice, and none that is reserved.
    let found = stage.with_network().await.unwrap();
    let mut by_address: BTreeMap<String, String> = BTreeMap::new();
    for (name, machine) in &found {
        let network = machine.network.clone().unwrap().unwrap();
        let before = by_address.insert(network.addresses[0].ip.to_string(), name.clone());
        assert_eq!(before, None, "{} is also of {name}", network.addresses[0]);
    }
    assert_eq!(by_address.len(), MACHINES + 2);
    for kept in ["10.20.0.0", "10.20.0.53", "10.20.255.255"] {
        assert!(!by_address.contains_key(kept), "{kept}");
    }
    // The watch saw each machine pass all steps, from its first version on.
    for number in 0..MACHINES {
        let steps = stage.steps(&format!("m{number}"));
        assert_eq!(steps, [Step::Gated, Step::Open, Step::Provisioned], "m{number}");
    }
    let broken = stage.broken();
    assert!(broken.is_empty(), "open without a network: {broken:?}");
    kill(&other);
}

async fn every_address_comes_back(stage: &Stage) {
    let names: BTreeSet<String> = stage.with_network().await.unwrap().into_keys().collect();
    let mut names = names.iter().filter(|name| name.starts_with('m'));
    // Half of them are deleted while no process runs. The next process finds them before it knows
    // the subnet.
    for name in names.by_ref().take(MACHINES / 2) {
        stage.delete(name).await;
    }
    let running = stage.start("third", &["10.20.0.0/16,10.21.0.1,10.20.0.53"]);
    for name in names {
        stage.delete(name).await;
    }
    wait_for(&stage.site.scene, "two addresses are owned", async || {
        let owned = stage.owned().await?;
        let left = stage
            .machines(Shape::ProviderConfig)
            .list(&Default::default())
            .await?
            .items
            .len();
        Ok(if owned == 2 && left == 1 {
            Seen::There
        } else {
            Seen::NotYet(format!("{owned} owned, {left} left"))
        })
    })
    .await
    .unwrap();
    let left = stage
        .machines(Shape::ProviderConfig)
        .list(&Default::default())
        .await
        .unwrap();
    assert_eq!(left.items[0].name_any(), "early-1");
    kill(&running);
}
