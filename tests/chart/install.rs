//! The chart on a real cluster, from nothing to nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use berth_e2e::Seen;
use berth_e2e::rights::{Asked, Audit};
use berth_testbed::Builder;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use crate::helm::{done, tried};
use crate::reach;
use crate::remains::Remains;
use crate::site::{Site, phase, restarts};
use crate::watching::{self, is_watched};

const VALUES: [&str; 4] = [
    "crds.keep=false",
    "metrics.address=0.0.0.0",
    "dashboard.enabled=true",
    // Debian's portmap is older than CNI 1.1.0.
    "agent.extraArgs={--host-ports=always}",
];
/// Rights for cases that do not occur here.
const ELSEWHERE: [&str; 15] = [
    // Kinds that this cluster does not have.
    "cluster.k8s.io/machines watch",
    "kubermatic.k8s.io/clusters watch",
    "machine.k8s.io/machines watch",
    // Before something is taken away, what the index says is read again.
    "/nodes get",
    "/pods get",
    "berth.dev/subnets get",
    // For API servers with OwnerReferencesPermissionEnforcement.
    "/nodes/finalizers update",
    "berth.dev/subnets/finalizers update",
    // Nodes and Subnets are deleted, or a newer program or a person has changed an object.
    "acn.azure.com/clustersubnetstates delete",
    "acn.azure.com/nodenetworkconfigs delete",
    "acn.azure.com/nodenetworkconfigs patch",
    "berth.dev/addressblocks delete",
    "berth.dev/addressblocks get",
    // Something is wrong.
    "events.k8s.io/events create",
    "events.k8s.io/events patch",
];
const PODS: usize = 60;
/// This many more pods come and go while the agents are updated.
const LOAD: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_updates_without_a_gap_and_uninstalls_completely() {
    let start = Instant::now();
    let say = |what: &str| println!("{what} after {:.1} s", start.elapsed().as_secs_f64());
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::of(directory.path()).unwrap();
    let audited = |cluster: Builder<'static>| audit.on(cluster.nodes(3));
    let site = Site::open("chart-install", &["v1", "v2"], audited).await;
    reach::install_portmap(&site);
    let before = Remains::of(&site).unwrap();
    say("the cluster is there");

    site.helm("install", "v1", &VALUES);
    site.until("the page's Subnet is created", async || {
        Ok(match tried(&mut site.shell("kubectl apply", &[])) {
            Ok(_) => Seen::There,
            // Right after its definition was created, the kind is not served yet.
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await;
    // The page's Subnet with a shorter reuseDelay: pods come and go quickly below.
    site.create_subnet(json!({"cidrs": ["10.64.0.0/16"], "reuseDelay": "1s"}))
        .await;
    site.until_agents("v1").await;
    let status = done(&mut site.shell("berth status", &[]));
    assert!(status.contains("10.64.0.0/16"), "{status}");
    say("all agents serve");
    site.deploy("web", PODS).await;
    let pods = site.run(PODS).await;
    say("60 pods run");
    assert_eq!(addresses(&pods).len(), PODS, "each has an address of its own");

    reach::host_port_opens_and_closes(&site).await;
    reach::dashboard_shows_the_cluster(&site).await;
    say("a hostPort was open, and the dashboard shows the nodes");
    site.run(PODS).await;

    let lasting: BTreeSet<String> = pods.iter().filter_map(|pod| pod.uid()).collect();
    update_under_load(&site).await;
    say("the agents are updated");
    site.deploy("load", LOAD).await;
    let pods = site.run(PODS + LOAD).await;
    assert_eq!(addresses(&pods).len(), PODS + LOAD);
    let still = pods
        .iter()
        .filter_map(|pod| pod.uid())
        .filter(|uid| lasting.contains(uid));
    assert_eq!(still.count(), PODS, "none of the pods of before has gone");
    let failed = pods
        .iter()
        .filter(|pod| phase(pod) == "Failed" || restarts(pod) > 0)
        .count();
    assert_eq!(failed, 0);
    let refused = site.events("FailedCreatePodSandBox").await;
    // On a busy machine a pool may grow more slowly than pods come. An agent serves all the same.
    let is_gap = |note: &&str| !note.contains("more are asked for");
    let notes = refused.iter().filter_map(|event| event.message.as_deref());
    let notes: Vec<_> = notes.filter(is_gap).collect();
    assert!(notes.is_empty(), "an ADD was not served: {notes:#?}");

    let prometheus = watching::start(&site);
    // These pods make calls that the dashboard shows.
    site.deploy("load", 2 * LOAD).await;
    site.run(PODS + 2 * LOAD).await;
    is_watched(&site, &prometheus).await;
    drop(prometheus);
    say("every query of the dashboard has returned data");

    let asked = audit.asked().unwrap();
    done(&mut site.shell("kubectl delete deployments", &[]));
    site.gone().await;
    say("all pods are gone");
    site.uninstall().await;
    say("it is uninstalled");
    site.until("nothing is left", async || {
        Ok(match Remains::of(&site) {
            Ok(after) if after == before => Seen::There,
            Ok(after) => Seen::NotYet(after.beyond(&before)),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await;
    say("nothing is left");

    rights_are_least(&site, &asked).await;
    say("every right was needed");
}

/// Checks that some request needed each right of the components here, except those in `ELSEWHERE`.
async fn rights_are_least(site: &Site, asked: &Asked) {
    let mut unknown = Vec::new();
    for component in ["controller", "agent", "dashboard"] {
        let file = format!("../deploy/rbac/{component}.yaml");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        site.scene.cluster.apply(&file).unwrap();
        let account = format!("berth-{component}");
        let superfluous = asked.superfluous(&site.scene, &account).await.unwrap();
        let is_known = |right: &String| ELSEWHERE.contains(&right.as_str());
        let more = superfluous.into_iter().filter(|right| !is_known(right));
        unknown.extend(more.map(|right| format!("{account}: {right}")));
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Pods come and go until every node has its new agent.
async fn update_under_load(site: &Site) {
    site.deploy("load", LOAD).await;
    site.helm("upgrade", "v2", &VALUES);
    let nodes = site.nodes().len();
    let mut rounds = 0;
    loop {
        let replicas = if rounds % 2 == 0 { LOAD } else { 0 };
        site.deploy("load", replicas).await;
        rounds += 1;
        site.run(PODS + replicas).await;
        if site.agents("v2").await.unwrap().len() == nodes {
            break;
        }
    }
    println!("pods came and went {rounds} times meanwhile");
}

fn addresses(pods: &[Pod]) -> BTreeSet<String> {
    let statuses = pods.iter().filter_map(|pod| pod.status.as_ref());
    statuses.filter_map(|status| status.pod_ip.clone()).collect()
}
