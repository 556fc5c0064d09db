//! An API server that is put back from a backup while agents and controllers go on: all that it
//! serves has lower resourceVersions than they have seen.

use std::path::Path;
use std::time::Duration;

use berth_apiserver::{Options, Server};
use berth_testkit::on_a_stopped_clock;

use super::cluster::{Cluster, Plan, Stored};

/// `seed`: each start makes UIDs of its own.
async fn open(directory: &Path, seed: u64) -> Server {
    let options = Options {
        data_dir: Some(directory.to_owned()),
        seed: Some(seed),
        ..Options::default()
    };
    Server::open(options).await.unwrap()
}

fn put_in_place(backup: &Path, directory: &Path) {
    let file = "objects.redb";
    std::fs::copy(backup.join(file), directory.join(file)).unwrap();
}

async fn scale_up(cluster: &mut Cluster, pods: usize) {
    for n in 0..pods {
        cluster.create_pod(&format!("node-{}", 1 + n % 2)).await;
    }
    cluster.settle(Duration::from_secs(30)).await;
    cluster.check_no_address_is_shared();
    cluster.check_every_pod_has_an_address();
}

#[test]
fn agents_and_controllers_follow_a_restored_api_server() {
    on_a_stopped_clock(async {
        let [first, second, third] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let server = open(first.path(), 1).await;
        let plan = Plan {
            seed: 0,
            name: "pods",
            cidr: "10.64.0.0/25".to_owned(),
            nodes: 2,
        };
        let ledger = Stored::Kubernetes { copy: Vec::new() };
        let mut cluster = Cluster::start(server.client(), plan, ledger).await;
        scale_up(&mut cluster, 10).await;
        server.stop().await;

        // Its clients still hold what is stopped, so the next one has a copy.
        put_in_place(first.path(), second.path());
        let server = open(second.path(), 2).await;
        cluster.lead_to(server.client());
        scale_up(&mut cluster, 40).await;
        let newest = cluster.writes().await;
        server.stop().await;

        put_in_place(first.path(), third.path());
        let server = open(third.path(), 3).await;
        cluster.lead_to(server.client());
        assert!(cluster.writes().await < newest, "it is a backup");
        // 40 pods run that the API server does not know. Theirs is not given to these.
        scale_up(&mut cluster, 20).await;

        // Kubelets stop the pods that the API server does not know.
        let unknown: Vec<String> = (11..=50).map(|n| format!("web-{n}")).collect();
        for name in unknown {
            cluster.delete_pod(&name).await;
        }
        cluster.quiet().await;
        drop(cluster);
        server.stop().await;
    });
}
