//! A subnet that is nearly or wholly full, with pods that do not change: nothing is written.

use std::time::Duration;

use berth_testkit::on_a_stopped_clock;

use super::cluster::{Cluster, Plan, Stored};
use super::serve;

/// In percent of all addresses that can be given out: those of nodes and those of pods.
const FILLS: [usize; 5] = [60, 80, 90, 95, 100];

/// Pods come until the subnet is as full as each of the fills. Then they do not change, and API
/// writes are counted for a minute. Blocks of the ledger are objects of the API, too.
fn nothing_is_written(nodes: usize, cidr: &str, usable: usize) {
    on_a_stopped_clock(async {
        let server = serve(0).await;
        let plan = Plan {
            seed: 0,
            name: "pods",
            cidr: cidr.to_owned(),
            nodes,
        };
        let ledger = Stored::Kubernetes { copy: Vec::new() };
        let mut cluster = Cluster::start(server.client(), plan, ledger).await;
        for fill in FILLS {
            let pods = usable * fill / 100 - nodes;
            while cluster.pods.len() < pods {
                let node = format!("node-{}", 1 + cluster.pods.len() % nodes);
                cluster.create_pod(&node).await;
            }
            cluster.settle(Duration::from_secs(60)).await;
            tokio::time::sleep(Duration::from_secs(240)).await;
            let without = cluster.pods.values().filter(|pod| pod.addresses.is_empty()).count();
            assert_eq!(without, 0, "{nodes} nodes, {fill} %: pods without an address");
            cluster.check_no_address_is_shared();
            let before = cluster.writes().await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            let writes = cluster.writes().await - before;
            assert_eq!(writes, 0, "{nodes} nodes, {fill} %: API writes in a minute");
        }
        drop(cluster);
        server.stop().await;
    });
}

#[test]
fn nothing_is_written_at_any_fill_with_2_nodes() {
    nothing_is_written(2, "10.64.0.0/26", 61);
}

#[test]
fn nothing_is_written_at_any_fill_with_20_nodes() {
    nothing_is_written(20, "10.64.0.0/24", 253);
}

#[test]
fn nothing_is_written_at_any_fill_with_200_nodes() {
    nothing_is_written(200, "10.64.0.0/21", 2045);
}
