//! Machines that are gated by the policy, given their networks, and deleted again.

use std::time::{Duration, Instant};

use berth_machines::machine::{Machine, Shape};
use berth_testbed::Figures;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::json;

use crate::bound::machines_alone;
use crate::program::Program;
use crate::server::Server;

const INTERVAL: Duration = Duration::from_millis(50);

pub async fn measure(server: &Server, count: usize, figures: &mut Figures) {
    let flags = [
        "--controllers=subnet,machine",
        "--network=10.80.0.0/16,10.80.0.1,10.80.0.53",
    ];
    let berth = Program::berth(server, &flags);
    let start = Instant::now();
    server
        .for_each(0..count, async |client, number| {
            let object = json!({
                "apiVersion": "machine.k8s.io/v1alpha1", "kind": "Machine",
                "metadata": {"name": format!("m{number}")}, "spec": {"providerConfig": {}},
            });
            let object = serde_json::from_value(object).unwrap();
            let made = machines(client).create(&PostParams::default(), &object).await.unwrap();
            assert!(Machine::of(Shape::ProviderConfig, &made).is_gated());
        })
        .await;
    until(server, |machines| {
        let open = machines
            .iter()
            .filter(|machine| !machine.is_gated() && matches!(machine.network, Ok(Some(_))));
        open.count() == count
    })
    .await;
    let given = start.elapsed();
    server
        .for_each(0..count, async |client, number| {
            let params = DeleteParams::background();
            machines(client).delete(&format!("m{number}"), &params).await.unwrap();
        })
        .await;
    until(server, <[Machine]>::is_empty).await;
    let gone = start.elapsed();
    figures.millis(&format!("{count} machines have their network after"), millis(given));
    figures.millis(
        &format!("{count} machines were given a network and went in"),
        millis(gone),
    );
    let bytes = berth.process().most_resident().unwrap();
    figures.mebibytes("machines: memory at most", bytes);
    drop(berth);
    let alone = machines_alone(server, count).await;
    let name = format!("{count} machines by the clients alone, the same writes");
    figures.millis(&name, millis(alone));
    let share = alone.as_secs_f64() / gone.as_secs_f64();
    figures.times("machines: of the speed that the API server has", share);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

async fn until(server: &Server, is_so: impl Fn(&[Machine]) -> bool) {
    let api = machines(server.client().clone());
    loop {
        let list = api.list(&ListParams::default()).await.unwrap();
        let found: Vec<Machine> = list
            .items
            .iter()
            .map(|object| Machine::of(Shape::ProviderConfig, object))
            .collect();
        if is_so(&found) {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

pub fn machines(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &Shape::ProviderConfig.resource())
}
