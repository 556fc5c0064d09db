//! The pool by itself: whatever happens, and in whatever order.

mod attachments;
mod deliveries;
mod families;
mod model;
mod quarantine;

use berth_api::NodeNetworkConfig;
use berth_api::agent::{AddressState, Gc, Reason, Release, Request};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

const SECOND: u64 = 1_000_000_000;
const REUSE_DELAY: u64 = 30 * SECOND;

fn name(n: u32) -> String {
    Uuid::from_u128(n.into()).to_string()
}

fn nnc(containers: Value, not_in_use: &[String]) -> NodeNetworkConfig {
    serde_json::from_value(json!({
        "apiVersion": "acn.azure.com/v1alpha",
        "kind": "NodeNetworkConfig",
        "metadata": {"name": "n1", "namespace": "kube-system", "uid": "u1", "resourceVersion": "1"},
        "spec": {"requestedIPCount": 16, "ipsNotInUse": not_in_use},
        "status": {"networkContainers": containers},
    }))
    .unwrap()
}

/// 10.64.0.0/16 with the addresses 10.64.0.n, each named by its number.
fn vnet(id: &str, numbers: impl IntoIterator<Item = u32>) -> Value {
    let assignments: Vec<Value> = numbers
        .into_iter()
        .map(|n| json!({"name": name(n), "ip": format!("10.64.0.{n}")}))
        .collect();
    json!({
        "id": id, "primaryIP": "10.64.0.250", "subnetName": "pods", "subnetAddressSpace": "10.64.0.0/16",
        "defaultGateway": "10.64.0.1", "ipAssignments": assignments,
    })
}

fn delivered(containers: Value) -> Delivered {
    Delivered::read(&nnc(containers, &[]))
}

/// With 10.64.0.10 and as many more.
fn pool(count: u32) -> Pool {
    let mut pool = Pool::default();
    pool.deliver(&delivered(json!([vnet("c1", 10..10 + count)])));
    pool
}

fn attachment(n: u64) -> Attachment {
    Attachment::new(&format!("container-{n}"), "eth0").unwrap()
}

fn request(n: u64, started: u64) -> Request {
    Request {
        attachment: attachment(n),
        network: "pods".to_owned(),
        pod: PodRef {
            namespace: "shop".to_owned(),
            name: format!("web-{n}"),
            uid: String::new(),
        },
        started,
        desired: Vec::new(),
        wait_ms: 0,
    }
}

impl Pool {
    /// Planned and done, as if the journal took everything.
    fn add(&mut self, request: &Request, now: u64) -> Result<Vec<String>, Reason> {
        let held = match self.plan_request(request, now).map_err(|refusal| refusal.reason)? {
            Plan::Existing(held) => held,
            Plan::New(held, entry) => {
                self.apply(&entry);
                held
            }
        };
        Ok(held.iter().map(|held| held.address.to_string()).collect())
    }

    fn del(&mut self, n: u64, started: u64, now: u64) -> u64 {
        let release = Release {
            attachment: attachment(n),
            started,
        };
        self.plan_release(&release, now).map_or(0, |entry| self.apply(&entry))
    }

    fn leave(&mut self, count: usize, now: u64) {
        for entry in self.plan_releasing(count, now) {
            self.apply(&entry);
        }
    }

    fn state(&self, address: &str) -> Option<AddressState> {
        let lines = self.lines(SECOND, 0);
        lines
            .iter()
            .find(|line| line.address.to_string() == address)
            .map(|line| line.state)
    }
}
