//! What is in the stores that are kept, and how a ledger finds it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::{Plan, UnitLengths};
use berth_ledger::store::Store;
use berth_ledger::{Clock, Kind, LeaseId, Ledger, LedgerMetrics, Owner};

/// Each unit with its owner and lease.
pub type Owners = BTreeMap<String, String>;

const REUSE_DELAY: Duration = Duration::from_secs(30);

/// Name, CIDRs and the length of IPv4 units.
const SUBNETS: [(&str, &[&str], u8); 2] = [
    ("pods", &["10.64.0.0/22", "fd64::/64"], 32),
    ("nodes", &["10.200.0.0/16"], 24),
];

pub async fn open(store: Arc<dyn Store>) -> Ledger {
    let ledger = Ledger::new(store, Clock::system(), LedgerMetrics::unregistered());
    for (name, cidrs, ipv4) in SUBNETS {
        let plan = Plan {
            cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
            unit_lengths: UnitLengths {
                ipv4,
                ..UnitLengths::default()
            },
            ..Plan::default()
        };
        ledger.set_subnet(name, &plan, REUSE_DELAY).await.unwrap();
    }
    ledger
}

/// Blocks of both families, owners of several kinds, units that cool down, and an epoch.
#[allow(dead_code, reason = "where nothing is written it is not needed")]
pub async fn fill(store: Arc<dyn Store>) {
    let ledger = open(store).await;
    ledger.begin_epoch().await.unwrap();
    let ids = |numbers: std::ops::Range<u128>| numbers.map(LeaseId::from_u128).collect::<Vec<_>>();
    let owner = |kind, name: &str| Owner::new(kind, "blue", name, "uid").unwrap();
    let first = owner(Kind::Secondary, "node-1");
    ledger.lease("pods", &first, ids(0..30), None).await.unwrap();
    ledger.release("pods", &first, Some(ids(7..10))).await.unwrap();
    let own = owner(Kind::Primary, "node-2");
    ledger.lease("pods", &own, ids(500..501), None).await.unwrap();
    let machine = owner(Kind::Machine, "m-1");
    ledger.lease("pods", &machine, ids(600..602), None).await.unwrap();
    let node = owner(Kind::NodeCidr, "node-1");
    ledger.lease("nodes", &node, ids(700..701), None).await.unwrap();
}

pub async fn owners(ledger: &Ledger) -> Owners {
    let mut owners = Owners::new();
    for (subnet, ..) in SUBNETS {
        for owner in ledger.owners(subnet).await.unwrap() {
            for lease in ledger.held(subnet, &owner).await.unwrap() {
                for unit in lease.units {
                    let before = owners.insert(unit.to_string(), format!("{owner} {}", lease.id));
                    assert_eq!(before, None, "{unit} has two owners");
                }
            }
        }
    }
    owners
}
