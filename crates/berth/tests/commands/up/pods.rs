//! Pods of `berth up`: their addresses come from the agents by the real plugin, and go back there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use berth_api::NodeNetworkConfig;
use berth_api::agent::{
    ADDRESSES, AddressLine, AddressState, MAX_QUEUE_ENTRIES, RESERVE, overflow_of,
};
use berth_api::names::NAMESPACE;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{Running, up};

/// Makes the deployment `web` have so many pods.
pub async fn deploy(client: &Client, replicas: usize) {
    deploy_with(client, replicas, json!({"containers": [{"name": "c", "image": "x"}]})).await;
}

/// All on one node, past the scheduler: also where there is no IP for them.
pub async fn deploy_on(client: &Client, replicas: usize, node: &str) {
    let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "x"}]});
    deploy_with(client, replicas, spec).await;
}

async fn deploy_with(client: &Client, replicas: usize, spec: serde_json::Value) {
    let labels = json!({"app": "web"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    let params = PatchParams::apply("test").force();
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    deployments
        .patch("web", &params, &Patch::Apply(deployment))
        .await
        .unwrap();
}

/// The pods once `enough` says that they are as wanted.
pub async fn pods_once(client: &Client, enough: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
    let pods = Api::<Pod>::default_namespaced(client.clone());
    loop {
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        if enough(&pods) {
            return pods;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// So many, and all run.
pub fn all_run(number: usize) -> impl Fn(&[Pod]) -> bool {
    move |pods| pods.len() == number && pods.iter().all(is_running)
}

pub fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let listed = pod.status.iter().filter_map(|status| status.pod_ips.as_ref()).flatten();
    listed.map(|listed| listed.ip.parse().unwrap()).collect()
}

fn by_name(pods: &[Pod]) -> BTreeMap<String, Vec<IpAddr>> {
    pods.iter().map(|pod| (pod.name_any(), addresses(pod))).collect()
}

/// Each has some, and nobody has another's.
fn unique(pods: &[Pod]) -> BTreeSet<IpAddr> {
    let all: Vec<IpAddr> = pods.iter().flat_map(addresses).collect();
    assert!(pods.iter().all(|pod| !addresses(pod).is_empty()));
    let unique: BTreeSet<IpAddr> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len(), "{all:?}");
    unique
}

/// What the node's agent has given out, and to which pod; once it serves.
fn assigned(directory: &Path, node: &str) -> BTreeMap<IpAddr, String> {
    let socket = directory.join("nodes").join(node).join("agent.sock");
    let mut stream = loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    write!(
        stream,
        "GET {ADDRESSES} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let lines: Vec<AddressLine> = serde_json::from_str(body).unwrap();
    let lines = lines.into_iter().filter(|line| line.state == AddressState::Assigned);
    lines.map(|line| (line.address, line.pod.unwrap().name)).collect()
}

fn all_assigned(directory: &Path, nodes: usize) -> BTreeMap<IpAddr, String> {
    let nodes = (1..=nodes).map(|number| format!("berth-node-{number}"));
    nodes.flat_map(|node| assigned(directory, &node)).collect()
}

/// What a node with so many pods has: half a batch of 16 free, in whole batches.
fn pool_of(pods: i64) -> i64 {
    16 * (pods + 8 + 15).div_euclid(16)
}

/// What each node asks for and has, once that is so.
async fn pools_once(client: &Client, wanted: &BTreeMap<String, i64>) {
    let nncs = Api::<NodeNetworkConfig>::namespaced(client.clone(), NAMESPACE);
    loop {
        let nncs = nncs.list(&ListParams::default()).await.unwrap();
        let of_one = |nnc: &NodeNetworkConfig| {
            let has = nnc.status.as_ref().map_or(0, |status| status.assigned_ip_count);
            (nnc.name_any(), (nnc.spec.requested_ip_count, has))
        };
        let pools: BTreeMap<_, _> = nncs.iter().map(of_one).collect();
        let reached =
            |(node, wanted): (&String, &i64)| pools.get(node) == Some(&(*wanted, *wanted));
        if pools.len() == wanted.len() && wanted.iter().all(reached) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn kubectl(berth: &Running, line: &str) -> String {
    let mut command = Command::new("kubectl");
    command.env("KUBECONFIG", berth.kubeconfig()).args(line.split(' '));
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Whether there is a kubectl; if not, that is said on a line that is counted.
pub fn has_kubectl() -> bool {
    let found = Command::new("kubectl").args(["version", "--client"]).output().is_ok();
    if !found {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "there is no kubectl in PATH"
        );
        let thread = std::thread::current();
        let line = format!("left out: {}: needs kubectl\n", thread.name().unwrap_or_default());
        // Not `println`: the harness keeps what a passing test prints to itself.
        drop(std::io::stdout().write_all(line.as_bytes()));
    }
    found
}

#[tokio::test]
async fn pods_get_unique_addresses_and_pools_scale_up_and_down() {
    if !has_kubectl() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    kubectl(&berth, "create deployment web --image=x --replicas=60");
    kubectl(&berth, "rollout status deployment web");
    let shown = kubectl(&berth, "get pods -o wide --no-headers");
    let rows: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 60, "{shown}");
    assert!(rows.iter().all(|row| row[1] == "1/1" && row[2] == "Running"), "{shown}");
    let mut per_node = BTreeMap::<String, i64>::new();
    for row in &rows {
        *per_node.entry(row[6].to_owned()).or_default() += 1;
    }
    let pods = pods_once(&client, all_run(60)).await;
    let unique = unique(&pods);
    let column: BTreeSet<IpAddr> = rows.iter().map(|row| row[5].parse().unwrap()).collect();
    assert_eq!(column, unique);
    let pools = per_node.into_iter().map(|(node, pods)| (node, pool_of(pods)));
    pools_once(&client, &pools.collect()).await;
    let traced: BTreeMap<IpAddr, String> =
        pods.iter().map(|pod| (addresses(pod)[0], pod.name_any())).collect();
    assert_eq!(all_assigned(parent.path(), 3), traced);

    kubectl(&berth, "scale deployment web --replicas=0");
    pods_once(&client, <[Pod]>::is_empty).await;
    assert_eq!(all_assigned(parent.path(), 3), BTreeMap::new());
    let pools = (1..=3).map(|number| (format!("berth-node-{number}"), 16));
    pools_once(&client, &pools.collect()).await;
    assert_eq!(berth.signal("INT").code(), Some(0));
}

#[tokio::test]
async fn pods_keep_their_addresses_over_a_kill_and_restart() {
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    deploy(&client, 60).await;
    let before = by_name(&pods_once(&client, all_run(60)).await);
    berth.signal("KILL");

    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    assert_eq!(by_name(&pods_once(&client, all_run(60)).await), before);
    deploy(&client, 90).await;
    let pods = pods_once(&client, all_run(90)).await;
    let all = by_name(&pods);
    assert!(before.iter().all(|(name, addresses)| all.get(name) == Some(addresses)));
    assert_eq!(
        all_assigned(parent.path(), 3).into_keys().collect::<BTreeSet<_>>(),
        unique(&pods)
    );
}

#[tokio::test]
async fn addresses_of_pods_deleted_before_a_kill_are_freed_at_restart() {
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    deploy(&client, 30).await;
    pods_once(&client, all_run(30)).await;
    deploy(&client, 0).await;
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let force = DeleteParams::default().grace_period(0);
    pods.delete_collection(&force, &ListParams::default()).await.unwrap();
    berth.signal("KILL");

    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    pods_once(&client, <[Pod]>::is_empty).await;
    let pools = (1..=3).map(|number| (format!("berth-node-{number}"), 16));
    pools_once(&client, &pools.collect()).await;
    while !all_assigned(parent.path(), 3).is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn addresses_of_pods_on_stopped_nodes_are_freed_at_restart() {
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    deploy(&client, 30).await;
    pods_once(&client, all_run(30)).await;
    assert_eq!(berth.signal("TERM").code(), Some(0));

    let mut command = up(parent.path());
    command.args(["--nodes", "1"]);
    let berth = Running::start(command);
    let client = berth.client().await;
    deploy(&client, 0).await;
    pods_once(&client, <[Pod]>::is_empty).await;
    let queued = parent.path().join("nodes/berth-node-3/release-queue");
    let is_entry = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.contains(':'));
    assert!(
        queued
            .read_dir()
            .unwrap()
            .any(|found| is_entry(&found.unwrap().file_name()))
    );
    assert_eq!(berth.signal("TERM").code(), Some(0));

    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    let pools = (1..=3).map(|number| (format!("berth-node-{number}"), 16));
    pools_once(&client, &pools.collect()).await;
    assert_eq!(all_assigned(parent.path(), 3), BTreeMap::new());
    deploy(&client, 30).await;
    unique(&pods_once(&client, all_run(30)).await);
}

/// Without a runtime to ask, the nodes' GC says what is left.
#[tokio::test]
async fn a_queue_past_its_limit_costs_a_restart_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let one = || {
        let mut command = up(parent.path());
        command.args(["--nodes", "1"]);
        command
    };
    let berth = Running::start(one());
    let client = berth.client().await;
    deploy(&client, 10).await;
    let before = by_name(&pods_once(&client, all_run(10)).await);
    assert_eq!(berth.signal("TERM").code(), Some(0));

    let queue = parent.path().join("nodes/berth-node-1/release-queue");
    for n in 0..MAX_QUEUE_ENTRIES {
        let attachment = json!({"container": format!("failed{n}"), "interface": "eth0"});
        let release = json!({"attachment": attachment, "started": 1}).to_string();
        std::fs::write(queue.join(format!("failed{n}:eth0")), release).unwrap();
    }
    for n in 0..3 {
        del_by_hand(parent.path(), &format!("late{n}"));
    }
    let is_mark = |name: &String| overflow_of(name).is_some();
    let names = || {
        let found = queue.read_dir().unwrap();
        let names = found.map(|found| found.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != RESERVE).collect::<Vec<String>>()
    };
    assert_eq!(names().len(), MAX_QUEUE_ENTRIES + 1);
    assert_eq!(names().iter().filter(|name| is_mark(name)).count(), 1);

    let berth = Running::start(one());
    let client = berth.client().await;
    assert_eq!(by_name(&pods_once(&client, all_run(10)).await), before);
    deploy(&client, 12).await;
    let pods = pods_once(&client, all_run(12)).await;
    while !names().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let held = all_assigned(parent.path(), 1).into_keys();
    assert_eq!(held.collect::<BTreeSet<_>>(), unique(&pods));
}

/// As a runtime calls the plugin for a container on the first node.
fn del_by_hand(data: &Path, container: &str) {
    let node = data.join("nodes/berth-node-1");
    let conf = json!({
        "cniVersion": "1.1.0", "name": "berth", "type": "berth-ipam",
        "ipam": {
            "type": "berth-ipam", "socket": node.join("agent.sock"),
            "queueDir": node.join("release-queue"),
            // What a DEL does not need.
            "routes": 7,
        },
        "runtimeConfig": {"ips": 7},
    });
    let mut call = Command::new(env!("CARGO_BIN_EXE_berth"));
    call.arg0("berth-ipam").env("CNI_COMMAND", "DEL");
    call.env("CNI_CONTAINERID", container).env("CNI_IFNAME", "eth0");
    let mut child = call.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(conf.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn pods_beyond_the_subnet_say_so_and_run_once_there_is_room() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args(["--nodes", "1", "--in-memory", "--subnet", "10.99.0.0/28"]);
    let berth = Running::start(command);
    let client = berth.client().await;
    // 16, without the network, the broadcast and the node itself.
    deploy(&client, 20).await;
    let running = |pods: &[Pod]| pods.iter().filter(|pod| is_running(pod)).count();
    let pods = pods_once(&client, |pods| pods.len() == 20 && running(pods) == 13).await;
    let (run, wait): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(is_running);
    unique(&run);
    let events = Api::<Event>::default_namespaced(client.clone());
    for pod in &wait {
        loop {
            let events = events.list(&ListParams::default()).await.unwrap();
            let about = |event: &&Event| {
                event.reason.as_deref() == Some("FailedScheduling")
                    && event.regarding.as_ref().and_then(|r| r.uid.clone()) == pod.uid()
            };
            if let Some(event) = events.iter().find(about) {
                let note = event.note.clone().unwrap();
                assert_eq!(note, "0/1 nodes are available: 1 no pod IP left in subnet pods.");
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let pods = Api::<Pod>::default_namespaced(client.clone());
    deploy(&client, 13).await;
    pods_once(&client, all_run(13)).await;
    // Its replacement gets what it gives back, however full the subnet is.
    pods.delete(&run[0].name_any(), &DeleteParams::default()).await.unwrap();
    let replaced =
        |pods: &[Pod]| all_run(13)(pods) && pods.iter().all(|pod| pod.uid() != run[0].uid());
    unique(&pods_once(&client, replaced).await);
}

#[tokio::test]
async fn nodes_run_only_as_many_pods_as_their_pod_cidr_holds() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args([
        "--nodes",
        "3",
        "--node-cidrs",
        "10.244.0.0/16",
        "--node-cidr-mask-size",
        "29",
    ]);
    let berth = Running::start(command);
    let client = berth.client().await;
    deploy(&client, 30).await;
    let running = |pods: &[Pod]| pods.iter().filter(|pod| is_running(pod)).count();
    let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let pods = pods_once(&client, |pods| pods.len() == 30 && running(pods) == 24).await;
    let (run, wait): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(is_running);
    unique(&run);
    assert!(!wait.iter().any(is_bound), "{wait:?}");
    let said = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let scheduled = conditions
            .into_iter()
            .find(|condition| condition.type_ == "PodScheduled");
        scheduled.and_then(|condition| condition.message.clone())
    };
    let reason = "0/3 nodes are available: 3 no pod IP left in the node's podCIDR.";
    let told =
        |pods: &[Pod]| pods.iter().filter(|pod| said(pod).as_deref() == Some(reason)).count() == 6;
    pods_once(&client, told).await;
    // Two go, and two of those that wait take their place.
    deploy(&client, 28).await;
    pods_once(&client, |pods| pods.len() == 28 && running(pods) == 24).await;
    routed_once(&client, 3).await;
}

/// Until so many nodes say that their routes are made.
async fn routed_once(client: &Client, number: usize) {
    let is_routed = |node: &Node| {
        let status = node.status.iter();
        let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|condition| {
            condition.type_ == "NetworkUnavailable"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("RouteCreated")
        })
    };
    let nodes = Api::<Node>::all(client.clone());
    loop {
        let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
        if nodes.iter().filter(|node| is_routed(node)).count() == number {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn with_both_families_a_pod_has_an_address_of_each() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args(["--in-memory", "--subnet", "10.64.0.0/16", "--subnet", "fd64::/64"]);
    let berth = Running::start(command);
    let client = berth.client().await;
    deploy(&client, 10).await;
    let pods = pods_once(&client, all_run(10)).await;
    unique(&pods);
    for pod in &pods {
        let families: Vec<bool> = addresses(pod).iter().map(IpAddr::is_ipv4).collect();
        assert_eq!(families, [true, false], "{:?}", addresses(pod));
    }
}

#[tokio::test]
async fn pods_come_and_go_without_a_word_in_the_log() {
    let parent = tempfile::tempdir().unwrap();
    let log = parent.path().join("log");
    let mut command = up(&parent.path().join("data"));
    command.stderr(std::fs::File::create(&log).unwrap());
    let berth = Running::start_as_is(command);
    let client = berth.client().await;
    for replicas in [40, 0] {
        deploy(&client, replicas).await;
        pods_once(&client, all_run(replicas)).await;
    }
    let events = Api::<Event>::default_namespaced(client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let warnings: Vec<&Event> = events
        .iter()
        .filter(|e| e.type_.as_deref() == Some("Warning"))
        .collect();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "");
}

#[tokio::test]
async fn kills_at_any_moment_neither_share_nor_leak_an_address() {
    let parent = tempfile::tempdir().unwrap();
    for (round, replicas) in [30, 5, 45, 0, 20, 60, 10, 40].into_iter().enumerate() {
        let berth = Running::start(up(parent.path()));
        let client = berth.client().await;
        deploy(&client, replicas).await;
        // Spread over the time that the pods need: some have what they need by then, some are on
        // their way.
        let pause = 50 + 97 * u64::try_from(round).unwrap() % 400;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        berth.signal("KILL");
    }
    let berth = Running::start(up(parent.path()));
    let client = berth.client().await;
    let pods = pods_once(&client, all_run(40)).await;
    unique(&pods);
    let shown = || async {
        let pods = Api::<Pod>::default_namespaced(client.clone());
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        let pairs = pods.iter().map(|pod| (addresses(pod)[0], pod.name_any()));
        pairs.collect::<BTreeMap<_, _>>()
    };
    while all_assigned(parent.path(), 3) != shown().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut per_node: BTreeMap<String, i64> =
        (1..=3).map(|number| (format!("berth-node-{number}"), 0)).collect();
    for pod in &pods {
        let node = pod.spec.as_ref().unwrap().node_name.clone().unwrap();
        *per_node.get_mut(&node).unwrap() += 1;
    }
    let pools = per_node.into_iter().map(|(node, pods)| (node, pool_of(pods)));
    pools_once(&client, &pools.collect()).await;
}
