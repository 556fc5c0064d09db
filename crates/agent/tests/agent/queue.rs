//! Draining the release queues into an agent.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_agent::queue::{Directory, Drain, Flavour};
use berth_api::agent::{RESERVE, Reason, Release, Request, entry_name};
use berth_api::cni::{Attachment, PodRef};
use berth_testkit::until;
use tokio_util::sync::CancellationToken;

use crate::scene::node::Node;

fn attachment(container: &str, interface: &str) -> Attachment {
    Attachment::new(container, interface).unwrap()
}

fn request(node: &Node, container: &str, interface: &str) -> Request {
    Request {
        attachment: attachment(container, interface),
        network: "pods".to_owned(),
        pod: PodRef::default(),
        started: node.agent.now(),
        desired: Vec::new(),
        wait_ms: 0,
    }
}

async fn add(node: &Node, container: &str) {
    node.agent.request(request(node, container, "eth0")).await.unwrap();
}

/// As the plugin does it.
fn put(directory: &Path, container: &str, started: u64) {
    let release = Release {
        attachment: attachment(container, "eth0"),
        started,
    };
    let unfinished = directory.join(format!(".{container}"));
    std::fs::write(&unfinished, serde_json::to_string(&release).unwrap()).unwrap();
    std::fs::set_permissions(&unfinished, Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(unfinished, directory.join(entry_name(&release.attachment))).unwrap();
}

fn addresses(count: usize) -> Vec<String> {
    (0..count)
        .map(|n| format!("10.64.{}.{}", 1 + n / 250, 1 + n % 250))
        .collect()
}

fn stocked(count: usize) -> Node {
    let node = Node::new();
    supply(&node, count);
    node
}

fn supply(node: &Node, count: usize) {
    let addresses = addresses(count);
    node.deliver(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
}

fn queue(node: &Node) -> (PathBuf, Drain) {
    let path = node.path("queue");
    let directory = Directory::open(&path, Flavour::Ours).unwrap();
    (path, Drain::new(node.agent.clone(), vec![directory]))
}

fn names(directory: &Path) -> Vec<String> {
    let found = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = found
        .map(|found| found.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != RESERVE)
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_queued_release_is_done_once_and_survives_a_restart() {
    let node = stocked(4);
    let (path, drain) = queue(&node);
    for container in ["c1", "c2", "c3"] {
        add(&node, container).await;
    }
    for container in ["c1", "c2", "unknown"] {
        put(&path, container, node.agent.now());
    }
    assert_eq!(drain.once().await.unwrap(), 3);
    assert_eq!(drain.once().await.unwrap(), 0);
    assert!(names(&path).is_empty());
    drop(drain);
    let node = node.restart();
    let left: Vec<Attachment> = node.agent.holdings().into_keys().collect();
    assert_eq!(left, [attachment("c3", "eth0")]);
    // An ADD of then that comes now comes too late.
    let mut late = request(&node, "c1", "eth0");
    late.started = 1;
    assert_eq!(node.agent.request(late).await.unwrap_err().reason, Reason::Detached);
}

#[tokio::test]
async fn an_entry_does_not_undo_an_add_that_was_started_after_it() {
    let node = stocked(2);
    let (path, drain) = queue(&node);
    put(&path, "c1", node.agent.now());
    add(&node, "c1").await;
    // Of an earlier boot, whose clock had come further.
    put(&path, "c2", u64::MAX - 1);
    add(&node, "c2").await;
    assert_eq!(drain.once().await.unwrap(), 2);
    assert!(names(&path).is_empty());
    assert_eq!(node.agent.holdings().len(), 2);
}

#[tokio::test]
async fn a_broken_file_is_set_aside_counted_and_blocks_no_other() {
    let node = stocked(2);
    let (path, drain) = queue(&node);
    add(&node, "c1").await;
    for name in ["c0:eth0", "c2:eth0", "nonsense"] {
        std::fs::write(path.join(name), "{").unwrap();
    }
    std::fs::create_dir(path.join("c3:eth0")).unwrap();
    put(&path, "c1", node.agent.now());
    assert_eq!(drain.once().await.unwrap(), 1);
    assert!(node.agent.holdings().is_empty());
    assert_eq!(names(&path), ["broken"]);
    assert_eq!(
        names(&path.join("broken")),
        ["c0:eth0", "c2:eth0", "c3:eth0", "nonsense"]
    );
    let metrics = node.metrics();
    assert!(
        metrics.contains("berth_agent_queue_broken_total{node=\"node-1\"} 4"),
        "{metrics}"
    );
    assert!(
        metrics.contains("berth_agent_queue_entries{node=\"node-1\"} 0"),
        "{metrics}"
    );
}

#[tokio::test]
async fn the_agent_recreates_a_removed_queue_and_drains_it() {
    let node = stocked(8);
    let (path, drain) = queue(&node);
    let stop = CancellationToken::new();
    let running = tokio::spawn(drain.run(stop.clone()));
    for container in ["c1", "c2"] {
        add(&node, container).await;
        put(&path, container, node.agent.now());
        until("released", async || {
            (node.agent.holdings().is_empty() && names(&path).is_empty()).then_some(())
        })
        .await;
    }
    add(&node, "c3").await;
    std::fs::remove_dir_all(&path).unwrap();
    until("recreated", async || path.exists().then_some(())).await;
    put(&path, "c3", node.agent.now());
    until("released", async || node.agent.holdings().is_empty().then_some(())).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_hundred_thousand_entries_drain_while_adds_are_served() {
    let node = stocked(200);
    let (path, drain) = queue(&node);
    for n in 0..100 {
        add(&node, &format!("c{n}")).await;
    }
    let directory = path.clone();
    let now = node.agent.now();
    tokio::task::spawn_blocking(move || {
        (0..100_000).for_each(|n| put(&directory, &format!("c{n}"), now))
    })
    .await
    .unwrap();
    let draining = tokio::spawn(async move { drain.once().await });
    let mut served = 0;
    while !draining.is_finished() {
        let container = format!("d{served}");
        add(&node, &container).await;
        let release = Release {
            attachment: attachment(&container, "eth0"),
            started: node.agent.now(),
        };
        node.agent.release(&release).unwrap();
        served += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(draining.await.unwrap().unwrap(), 100_000);
    assert!(served > 100, "{served} ADDs were served meanwhile");
    assert!(node.agent.holdings().is_empty() && names(&path).is_empty());
}

#[tokio::test]
async fn a_compat_file_releases_every_interface_of_its_container() {
    let node = stocked(8);
    let path = node.path("deleteIDs");
    let ours = Directory::open(node.path("queue"), Flavour::Ours).unwrap();
    let theirs = Directory::open(&path, Flavour::Compat).unwrap();
    let drain = Drain::new(node.agent.clone(), vec![ours, theirs]);
    for (container, interface) in [("c1", "eth0"), ("c1", "net1"), ("c2", "eth0")] {
        node.agent.request(request(&node, container, interface)).await.unwrap();
    }
    for (name, content) in [("c1", "c1"), ("unknown", "unknown\n")] {
        std::fs::write(path.join(name), content).unwrap();
        std::fs::set_permissions(path.join(name), Permissions::from_mode(0o644)).unwrap();
    }
    put(&node.path("queue"), "other", 1);
    assert_eq!(drain.once().await.unwrap(), 3);
    let left: Vec<Attachment> = node.agent.holdings().into_keys().collect();
    assert_eq!(left, [attachment("c2", "eth0")]);
    assert!(names(&path).is_empty());
}

/// The limit is that of a process of its own: the same test once more, under a shell that sets it.
#[tokio::test]
async fn entries_stay_when_the_journal_can_not_be_written() {
    const WITHIN: &str = "BERTH_TEST_FULL_JOURNAL";
    if std::env::var_os(WITHIN).is_none() {
        let script = "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact \
                      queue::entries_stay_when_the_journal_can_not_be_written";
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .env(WITHIN, "1");
        assert!(command.status().unwrap().success());
        return;
    }
    let node = stocked(200);
    let (path, drain) = queue(&node);
    let mut held = 0;
    while node
        .agent
        .request(request(&node, &format!("c{held}"), "eth0"))
        .await
        .is_ok()
    {
        held += 1;
    }
    assert!((1..200).contains(&held), "{held}");
    for n in 0..held {
        put(&path, &format!("c{n}"), node.agent.now());
    }
    let error = drain.once().await.unwrap_err().to_string();
    assert!(error.contains("they stay") && error.contains("make room"), "{error}");
    // The last page of the journal may have room for some: those are released, and the others
    // there.
    let left = names(&path).len();
    assert!(left > 0);
    assert_eq!(left, node.agent.holdings().len());
    let metrics = node.metrics();
    assert!(
        metrics.contains(&format!("berth_agent_queue_entries{{node=\"node-1\"}} {left}")),
        "{metrics}"
    );
}
