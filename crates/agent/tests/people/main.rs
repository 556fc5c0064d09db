//! A random test of people: what they do to a cluster by hand, with everything of ours running in
//! it.
//!
//! Five nodes with an agent each and controllers run in one process on the embedded API, on a
//! stopped clock. Each step is something that a person does: scale, delete pods,
//! NodeNetworkConfigs, Nodes, AddressBlocks, put an old ledger back, edit the Subnet, kill and
//! start what runs, cut watches. After every step no two living pods share an address. When people
//! leave it alone, every pod has an address, nothing is leaked, and nothing is written any more.
//!
//! A failing seed is named in the message, and `BERTH_PEOPLE=SEED` or `BERTH_PEOPLE=FROM..TO` runs
//! it alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cluster;
mod connection;
mod steps;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_apiserver::{Options, Server};
use cluster::Cluster;

const SEEDS: Range<u64> = 0..100;
const STEPS: usize = 200;

fn play(seed: u64) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let options = Options {
            seed: Some(seed),
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        let mut cluster = Cluster::start(server.client(), seed).await;
        for _ in 0..STEPS {
            cluster.step().await;
            cluster.check_no_address_is_shared().await;
        }
        cluster.quiet().await;
        drop(cluster);
        server.stop().await;
    });
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
        let played = catch_unwind(AssertUnwindSafe(|| play(seed)));
        assert!(
            played.is_ok(),
            "BERTH_PEOPLE={seed} cargo test -p berth-agent --test people"
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
