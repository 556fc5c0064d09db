//! A random test of people: what they do to a cluster by hand, with everything of ours running in
//! it.
//!
//! Five nodes with an agent each and controllers run in one process on the embedded API, on a
//! stopped clock. Each step is something that a person does: scale, delete pods,
//! NodeNetworkConfigs, Nodes, AddressBlocks, put an old ledger back, edit the Subnet, kill and
//! start what runs, start a second agent, cut watches; some share their store with another cluster
//! that has the same CIDR. After every step no two living pods share an address. When people leave
//! it alone, every pod has an address, nothing is leaked, and nothing is written any more.
//!
//! A failing seed is named in the message, and `BERTH_PEOPLE=SEED` or `BERTH_PEOPLE=FROM..TO` runs
//! it alone.

mod calm;
mod cluster;
mod connection;
mod restored;
mod steps;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_apiserver::{Options, Server};
use berth_ledger::store::MemoryStore;
use berth_testkit::on_a_stopped_clock;
use cluster::{Cluster, Plan, Stored};

const SEEDS: Range<u64> = 0..200;
const STEPS: usize = 200;
const NODES: usize = 5;
/// Pods of the other cluster: as many as have addresses that pods of the first one have, too.
const NEIGHBOURS: usize = 12;
/// 61 addresses, five of them for the nodes themselves.
const CIDR: &str = "10.64.0.0/26";

async fn serve(seed: u64) -> Server {
    let options = Options {
        seed: Some(seed),
        ..Options::default()
    };
    Server::open(options).await.unwrap()
}

async fn play(seed: u64) {
    let server = serve(seed).await;
    let plan = Plan {
        seed,
        name: "pods",
        cidr: CIDR.to_owned(),
        nodes: NODES,
    };
    let memory = MemoryStore::default();
    // One in four is over AddressBlocks, where every change is an object of the API.
    let ledger = match seed % 4 {
        3 => Stored::Kubernetes { copy: Vec::new() },
        _ => Stored::in_memory(&memory),
    };
    let mut cluster = Cluster::start(server.client(), plan.clone(), ledger).await;
    let mut next_door = None;
    // And one in four has a neighbour.
    if seed % 4 == 1 {
        let next_door = next_door.insert(serve(seed).await);
        let plan = Plan {
            name: "neighbours",
            nodes: 1,
            ..plan
        };
        let ledger = Stored::in_memory(&memory);
        let mut neighbour = Cluster::start(next_door.client(), plan, ledger).await;
        for _ in 0..NEIGHBOURS {
            neighbour.create_pod("node-1").await;
        }
        cluster.neighbour = Some(Box::new(neighbour));
    }
    // What was there before the subnet was is not a copy that anybody has.
    cluster.copy_ledger().await;
    for _ in 0..STEPS {
        cluster.step().await;
        cluster.check_no_address_is_shared();
    }
    cluster.quiet().await;
    drop(cluster);
    server.stop().await;
    if let Some(next_door) = next_door {
        next_door.stop().await;
    }
}

fn seeds() -> Range<u64> {
    let Ok(asked) = std::env::var("BERTH_PEOPLE") else {
        return SEEDS;
    };
    let (from, to) = asked.split_once("..").unwrap_or((&asked, ""));
    let from: u64 = from.parse().expect("BERTH_PEOPLE is SEED or FROM..TO");
    from..to.parse().unwrap_or(from + 1)
}

/// In two halves, so that both cores have something to do.
fn play_half(half: u64) {
    for seed in seeds().filter(|seed| seed % 2 == half) {
        let played = catch_unwind(AssertUnwindSafe(|| on_a_stopped_clock(play(seed))));
        assert!(
            played.is_ok(),
            "BERTH_PEOPLE={seed} cargo test -p berth-agent --test agent people::"
        );
    }
}

#[test]
fn no_address_is_on_two_pods_whatever_people_do_even_seeds() {
    play_half(0);
}

#[test]
fn no_address_is_on_two_pods_whatever_people_do_odd_seeds() {
    play_half(1);
}
