//! `berth allocator` as a person or a script runs it: killed at any moment, stopped, and called
//! wrongly.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_addr::{Plan, Prefix};
use berth_nodenet::allocator::{
    Allocator, AllocatorError, Container, ContainerRef, Registry, Update,
};
use berth_nodenet::client::RemoteAllocator;
use berth_testkit::certificates::{Authority, Pair};
use futures::future::join_all;
use tempfile::TempDir;
use uuid::Uuid;

const CLUSTER: &str = "blue";

/// An allocator on redb that can be ended and started again at its address.
struct World {
    directory: TempDir,
    authority: Authority,
    address: SocketAddr,
    running: Child,
}

fn command(authority: &Authority, store: &str, listen: &str) -> Command {
    command_with(&authority.server(), &authority.file(), store, listen)
}

fn command_with(server: &Pair, client_ca: &Path, store: &str, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    // The tests' own environment must not decide.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BERTH_") {
            command.env_remove(name);
        }
    }
    command.args(["allocator", "--listen", listen, "--store", store]);
    command.arg("--tls-cert").arg(&server.certificate);
    command.arg("--tls-key").arg(&server.key);
    command.arg("--client-ca").arg(client_ca);
    command
}

fn redb(directory: &Path) -> String {
    format!("redb={}", directory.join("ledger.redb").display())
}

/// Returns when it says that it is up.
fn start(mut command: Command) -> (Child, SocketAddr) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().rsplit("https://").next().unwrap();
    let address = address.parse().unwrap_or_else(|_| panic!("{line:?}"));
    (child, address)
}

impl World {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::make(directory.path(), "clusters");
        let (running, address) = start(command(&authority, &redb(directory.path()), "127.0.0.1:0"));
        Self {
            directory,
            authority,
            address,
            running,
        }
    }

    /// SIGKILL: no handler runs, no buffer is flushed.
    fn kill_and_start_again(&mut self) {
        self.running.kill().unwrap();
        self.running.wait().unwrap();
        let store = redb(self.directory.path());
        (self.running, _) = start(command(&self.authority, &store, &self.address.to_string()));
    }

    fn client(&self) -> RemoteAllocator {
        let pair = self.authority.client(CLUSTER);
        let url = format!("https://{}", self.address);
        RemoteAllocator::connect(&url, &self.authority.file(), &pair.certificate, &pair.key)
            .unwrap()
    }
}

/// A test that fails must not leave a server behind.
impl Drop for World {
    fn drop(&mut self) {
        drop(self.running.kill());
        drop(self.running.wait());
    }
}

fn node(number: u8) -> ContainerRef {
    ContainerRef {
        cluster: CLUSTER.to_owned(),
        node: format!("node-{number}"),
        uid: format!("uid-{number}"),
    }
}

fn plan() -> Plan {
    Plan {
        cidrs: vec!["10.64.0.0/16".parse().unwrap(), "fd64::/64".parse().unwrap()],
        ..Plan::default()
    }
}

fn update(round: u8, node: u8, give_back: Vec<Uuid>) -> Update {
    Update {
        request: Uuid::from_u128(u128::from(round) << 8 | u128::from(node)),
        count: 4 + usize::from(round),
        give_back,
    }
}

/// As a controller does: where a service that was started again asks for claims, it claims, and
/// sends the same again.
async fn updated(client: &RemoteAllocator, node: &ContainerRef, update: Update) -> Container {
    loop {
        match client.update("pods", node, update.clone()).await {
            Err(AllocatorError::Unclaimed { .. }) => {
                let generation = client.generation("pods", CLUSTER).await.unwrap();
                client.open_gate("pods", CLUSTER, generation).await.unwrap();
            }
            updated => return updated.unwrap(),
        }
    }
}

fn units(containers: &[Container]) -> Vec<Prefix> {
    let of_one = |container: &Container| {
        let secondaries = container.secondaries.iter().flat_map(|lease| lease.units.clone());
        container.primary.iter().copied().chain(secondaries).collect::<Vec<_>>()
    };
    containers.iter().flat_map(of_one).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_allocator_loses_no_lease_and_leases_nothing_twice() {
    const NODES: u8 = 8;
    let mut world = World::start();
    let client = world.client();
    client.set_subnet("pods", &plan(), Duration::ZERO).await.unwrap();
    for number in 0..NODES {
        client.create("pods", &node(number)).await.unwrap();
    }
    world.kill_and_start_again();
    let mut last = Vec::new();
    for number in 0..NODES {
        last.push(client.get("pods", &node(number)).await.unwrap().unwrap());
    }
    for round in 0..20_u8 {
        // Sent until they are answered: what was done before the kill is found by what is sent
        // after it.
        let updates = (0..NODES).map(|number| {
            let (client, old) = (client.clone(), last[usize::from(number)].clone());
            tokio::spawn(async move {
                let back = old.secondaries.first().map(|lease| lease.id);
                let update = update(round, number, back.into_iter().collect());
                updated(&client, &node(number), update).await
            })
        });
        let updates: Vec<_> = updates.collect();
        // The kill falls before, into or behind the write, as the rounds go on.
        tokio::time::sleep(Duration::from_micros(u64::from(round) * 700)).await;
        world.kill_and_start_again();
        let answered: Vec<Container> =
            join_all(updates).await.into_iter().map(Result::unwrap).collect();
        for (number, container) in (0..NODES).zip(&answered) {
            assert_eq!(container.secondaries.len(), 4 + usize::from(round), "round {round}");
            let kept = client.get("pods", &node(number)).await.unwrap().unwrap();
            assert_eq!(kept.secondaries, container.secondaries, "round {round}");
        }
        let all = units(&answered);
        assert_eq!(
            all.iter().collect::<BTreeSet<_>>().len(),
            all.len(),
            "one unit has two owners"
        );
        last = answered;
    }
    world.kill_and_start_again();
    let counts = client.counts("pods").await.unwrap();
    let leases = last
        .iter()
        .map(|container| container.secondaries.len() + 1)
        .sum::<usize>();
    for counts in counts.families.values() {
        assert_eq!(counts.reserved, u128::try_from(leases).unwrap());
    }
}

#[test]
fn the_allocator_serves_metrics_and_exits_with_0_on_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::make(directory.path(), "clusters");
    let metrics = free_port();
    let mut command = command(&authority, &redb(directory.path()), "127.0.0.1:0");
    command.args(["--metrics-listen", &metrics.to_string()]);
    let (mut child, _) = start(command);
    assert!(get(metrics, "/readyz").ends_with("ok\n"));
    assert!(get(metrics, "/healthz").ends_with("ok\n"));
    let text = get(metrics, "/metrics");
    assert!(text.contains("berth_allocator_waiters 0"), "{text}");
    let signalled = Command::new("kill")
        .args(["-s", "TERM", &child.id().to_string()])
        .status();
    assert!(signalled.unwrap().success());
    assert!(child.wait().unwrap().success());
}

fn free_port() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_bad_allocator_flag_is_refused_with_its_name_and_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::make(directory.path(), "clusters");
    let (server, ca, store) = (authority.server(), authority.file(), redb(directory.path()));
    let with_key_of = |other: Pair| Pair {
        key: other.key,
        ..server.clone()
    };
    let mixed = with_key_of(authority.client("blue"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let any = "127.0.0.1:0";
    for (command, words) in [
        (
            command_with(&server, &ca, "kubernetes", any),
            ["--store kubernetes", "use redb=PATH"],
        ),
        (command_with(&server, &ca, "memory", any), ["--store", "redb=PATH"]),
        (
            command_with(&mixed, &ca, &store, any),
            ["--tls-cert", "clusters.blue.key"],
        ),
        (
            command_with(&server, &server.key, &store, any),
            ["--client-ca", "no certificate in it"],
        ),
        (
            command_with(&server, &ca, &store, &taken),
            ["--listen", "another process listens there"],
        ),
    ] {
        let mut command = command;
        let output = command.output().unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    }
    assert!(
        !directory.path().join("ledger.redb").exists(),
        "nothing is made before all flags are good"
    );
}
