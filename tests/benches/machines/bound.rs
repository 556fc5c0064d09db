//! The upper bound, which the API server sets on this machine: clients make the same writes as an
//! allocation, and no write waits until a controller has seen the one before.

use std::time::{Duration, Instant};

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::claims::{GROUP, addresses, claims, resource};
use crate::machines::machines;
use crate::server::Server;

/// How long `count` claims take: each is created, then its IPAddress, then its status is written.
pub async fn claims_alone(server: &Server, count: usize) -> Duration {
    let start = Instant::now();
    server
        .for_each(0..count, async |client, number| {
            let name = format!("alone-{number}");
            let pool = json!({"apiGroup": "berth.dev", "kind": "Subnet", "name": "bench"});
            let claim = object("IPAddressClaim", &name, json!({"poolRef": pool}));
            let api = claims(client.clone());
            let claim = api.create(&PostParams::default(), &claim).await.unwrap();
            let ip = format!("10.60.{}.{}", number / 256, number % 256);
            let spec = json!({
                "address": ip, "prefix": 16, "claimRef": {"name": name}, "poolRef": pool,
            });
            let mut address = object("IPAddress", &name, spec);
            address.metadata.owner_references = Some(vec![
                serde_json::from_value(json!({
                    "apiVersion": format!("{GROUP}/v1beta2"), "kind": "IPAddressClaim",
                    "name": name, "uid": claim.metadata.uid, "controller": true,
                }))
                .unwrap(),
            ]);
            addresses(client)
                .create(&PostParams::default(), &address)
                .await
                .unwrap();
            let ready = json!({
                "type": "Ready", "status": "True", "reason": "Allocated", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
            });
            let status = json!({"status": {
                "addressRef": {"name": name}, "conditions": [ready],
            }});
            let patch = Patch::Merge(status);
            api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        })
        .await;
    let took = start.elapsed();
    let names = (0..count).map(|number| format!("alone-{number}"));
    server
        .for_each(names, async |client, name| {
            let params = DeleteParams::background();
            addresses(client.clone()).delete(&name, &params).await.unwrap();
            claims(client).delete(&name, &params).await.unwrap();
        })
        .await;
    took
}

/// How long `count` machines take: each is created, given a network and deleted, and loses its
/// finalizer.
pub async fn machines_alone(server: &Server, count: usize) -> Duration {
    let start = Instant::now();
    server
        .for_each(0..count, async |client, number| {
            let (api, name) = (machines(client), format!("alone-{number}"));
            let machine = json!({
                "apiVersion": "machine.k8s.io/v1alpha1", "kind": "Machine",
                "metadata": {"name": name}, "spec": {"providerConfig": {}},
            });
            let machine = serde_json::from_value(machine).unwrap();
            api.create(&PostParams::default(), &machine).await.unwrap();
            let ip = format!("10.80.{}.{}", number / 256, number % 256);
            let network = json!({
                "ip": ip, "netmask": "255.255.0.0", "cidr": format!("{ip}/16"),
                "gateway": "10.80.0.1", "dns": {"servers": ["10.80.0.53"]},
            });
            let given = json!({
                "metadata": {"finalizers": ["bench.berth.dev/alone"]},
                "spec": {"providerConfig": {"network": network}},
            });
            let params = PatchParams::default();
            api.patch(&name, &params, &Patch::Merge(given)).await.unwrap();
            api.delete(&name, &DeleteParams::background()).await.unwrap();
            let gone = json!({"metadata": {"finalizers": []}});
            api.patch(&name, &params, &Patch::Merge(gone)).await.unwrap();
        })
        .await;
    start.elapsed()
}

fn object(kind: &str, name: &str, spec: Value) -> DynamicObject {
    let resource = resource(GROUP, "v1beta2", kind, "");
    DynamicObject::new(name, &resource).data(json!({"spec": spec}))
}
