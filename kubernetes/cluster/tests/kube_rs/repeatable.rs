//! A seed and tokio's clock make a run that can be repeated. The embedded server alone, in process.

use std::time::Duration;

use berth_apiserver::{Options, Server};
use berth_testkit::on_a_stopped_clock;
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use crate::space::object;

/// Everything that is there after some writes, some of them concurrent and some by the server's own
/// loops.
fn run(seed: u64) -> Value {
    on_a_stopped_clock(async {
        let options = Options {
            seed: Some(seed),
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        let client = server.client();
        write(&client).await;
        let all = ListParams::default();
        let dump = json!([
            Api::<Namespace>::all(client.clone()).list(&all).await.unwrap(),
            Api::<ServiceAccount>::all(client.clone()).list(&all).await.unwrap(),
            Api::<ConfigMap>::all(client.clone()).list(&all).await.unwrap(),
            Api::<Lease>::all(client.clone()).list(&all).await.unwrap(),
        ]);
        server.stop().await;
        dump
    })
}

async fn write(client: &Client) {
    let namespace: Namespace = object(json!({"metadata": {"generateName": "space-"}}));
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let owners: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let owner: ConfigMap = object(json!({"metadata": {"name": "owner"}}));
    let owner = owners.create(&PostParams::default(), &owner).await.unwrap();
    let reference = owner.owner_ref(&()).unwrap();
    let create = async |number: u32| {
        let references = if number.is_multiple_of(2) {
            vec![&reference]
        } else {
            vec![]
        };
        let lease: Lease =
            object(json!({"metadata": {"generateName": "lease-", "ownerReferences": references}}));
        tokio::time::sleep(Duration::from_millis(u64::from(number * 700))).await;
        let lease = leases.create(&PostParams::default(), &lease).await.unwrap();
        let patch = Patch::Merge(json!({"metadata": {"labels": {"number": number.to_string()}}}));
        leases
            .patch(&lease.metadata.name.unwrap(), &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    join_all((0..16).map(create)).await;
    owners.delete("owner", &DeleteParams::background()).await.unwrap();
    // The collector has its turn.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[test]
fn the_same_seed_gives_the_same_objects_to_the_last_byte() {
    let first = run(7);
    assert_eq!(first, run(7));
    let leases = first[3]["items"].as_array().unwrap();
    assert_eq!(leases.len(), 8, "half of them went with their owner");
}

#[test]
fn another_seed_gives_other_names_and_uids() {
    let identities = |dump: &Value| -> Vec<Value> {
        let leases = dump[3]["items"].as_array().unwrap().iter();
        leases
            .flat_map(|lease| [lease["metadata"]["name"].clone(), lease["metadata"]["uid"].clone()])
            .collect()
    };
    let (one, other) = (run(7), run(8));
    let (one, other) = (identities(&one), identities(&other));
    assert_eq!(one.len(), other.len());
    assert!(one.iter().all(|identity| !other.contains(identity)));
}
