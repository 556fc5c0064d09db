//! What earlier agents and plugins stored, see `testdata/stores`: this agent finds every address
//! with its pod. What later ones stored is left as it is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_agent::journal::{Entry, Found, Held, Journal, JournalError};
use berth_agent::queue::{Directory, Drain, Flavour};
use berth_agent::{Agent, AgentMetrics, Clock, Storage};
use berth_api::agent::{RESERVE, Release, entry_name};
use berth_api::cni::{Attachment, PodRef};
use berth_api::nnc::IpAssignment;
use berth_testkit::stores;
use prometheus_client::registry::Registry;
use tempfile::TempDir;

const BOOT: &str = "0b0e0c1a-55aa-4d4b-9c3e-6a1f0d2b7c8e";

/// Attachments and pods, by address.
type Owners = BTreeMap<String, String>;

fn attachment(n: u64) -> Attachment {
    Attachment::new(&format!("{n:064x}"), "eth0").unwrap()
}

/// What a node's state directory and the directory of its socket are made of.
struct State {
    directory: TempDir,
}

impl State {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("release-queue")).unwrap();
        Self { directory }
    }

    /// A copy of what is kept.
    fn of(kept: &Path) -> Self {
        let state = Self::new();
        let from = kept.join("agent");
        for (path, bytes) in stores::bytes_of(&from) {
            let to = state.path(path.strip_prefix(&from).unwrap().to_str().unwrap());
            fs::write(&to, bytes).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
        }
        state
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self) -> Result<(Agent, Found), JournalError> {
        let storage = Storage {
            node: "node-1".to_owned(),
            state_dir: self.directory.path().to_owned(),
            mark: self.path("agent.mark"),
            boot: BOOT.to_owned(),
            clock: Clock::Boot,
            rest: Duration::ZERO,
        };
        let metrics = AgentMetrics::register(&mut Registry::default()).of("node-1");
        Agent::open(&storage, metrics)
    }

    async fn drain(&self, agent: &Agent) -> u64 {
        let queue = Directory::open(self.path("release-queue"), Flavour::Ours).unwrap();
        Drain::new(agent.clone(), vec![queue]).once().await.unwrap()
    }
}

fn owners(agent: &Agent) -> Owners {
    let holdings = agent.holdings().into_iter();
    let each = holdings.flat_map(|(attachment, holding)| {
        let owner = format!("{attachment} {}/{}", holding.pod.namespace, holding.pod.name);
        holding
            .held
            .into_iter()
            .map(move |held| (held.address.to_string(), owner.clone()))
    });
    each.collect()
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[tokio::test]
#[ignore = "writes test data: see docs/testing.md"]
async fn write_what_is_kept() {
    let state = State::new();
    let (mut journal, _) =
        Journal::open(state.directory.path(), &state.path("agent.mark"), BOOT).unwrap();
    let held = |n: u64| {
        let name = |family: &str| format!("{family}-{n}");
        let one = |name: String, address: String| Held {
            name,
            address: address.parse().unwrap(),
        };
        vec![
            one(name("a"), format!("10.64.0.{n}")),
            one(name("b"), format!("fd64::{n:x}")),
        ]
    };
    for n in 1..=8 {
        let assigned = Entry::Assigned {
            at: 1_000 + n,
            started: 900 + n,
            attachment: attachment(n),
            network: "pods".to_owned(),
            pod: PodRef {
                namespace: "shop".to_owned(),
                name: format!("web-{n}"),
                uid: format!("uid-{n}"),
            },
            held: held(n),
        };
        journal.append(&[assigned]).unwrap();
    }
    let (at, started) = (2_000, 1_999);
    let attachment_of_7 = attachment(7);
    let released = Entry::Released {
        at,
        started,
        attachment: attachment_of_7,
    };
    let freed = Entry::Freed { at, held: held(9) };
    let names = vec!["a-10".to_owned(), "b-10".to_owned()];
    let releasing = Entry::Releasing { at, names };
    journal
        .append(&[released, freed, releasing, Entry::Quarantined, Entry::Settled])
        .unwrap();
    drop(journal);
    // As the plugin does it, for the eighth.
    let release = Release {
        attachment: attachment(8),
        started: 3_000,
    };
    let entry = state.path("release-queue").join(entry_name(&release.attachment));
    fs::write(&entry, serde_json::to_vec(&release).unwrap()).unwrap();

    let directory = stores::keep();
    let to = directory.join("agent");
    fs::create_dir_all(to.join("release-queue")).unwrap();
    for (path, bytes) in stores::bytes_of(state.directory.path()) {
        fs::write(to.join(path.strip_prefix(state.directory.path()).unwrap()), bytes).unwrap();
    }
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o600)).unwrap();
    let (agent, _) = state.open().unwrap();
    assert_eq!(state.drain(&agent).await, 1);
    let text = serde_json::to_string_pretty(&owners(&agent)).unwrap();
    fs::write(directory.join("agent.owners.json"), text + "\n").unwrap();
    // As the agent writes it into its NodeNetworkConfig.
    let held = vec![IpAssignment {
        name: "3e9d8a3c-6e0e-4a54-9e51-b3a7f7a0f1d2".to_owned(),
        ip: "10.64.0.9".to_owned(),
    }];
    let annotation = serde_json::to_string(&held).unwrap();
    fs::write(directory.join("held.annotation.json"), annotation).unwrap();
}

#[tokio::test]
async fn every_address_of_a_kept_journal_and_queue_has_its_pod() {
    for kept in stores::kept() {
        let state = State::of(&kept);
        let (agent, found) = state.open().unwrap();
        assert!(matches!(found, Found::Entries { torn: false, .. }), "{found:?}");
        assert_eq!(state.drain(&agent).await, 1, "an entry of the queue is released");
        let expected: Owners = read(&kept.join("agent.owners.json"));
        assert!(!expected.is_empty());
        assert_eq!(owners(&agent), expected, "{}", kept.display());
        let left = fs::read_dir(state.path("release-queue")).unwrap();
        let mut left = left.map(|found| found.unwrap().file_name());
        assert!(left.all(|name| name == RESERVE));
    }
}

/// Why an agent does not start on what is kept, with this change of a later one.
fn refused(name: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) -> String {
    let state = State::of(&stores::kept().pop().unwrap());
    let path = state.path(name);
    fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
    let before = stores::bytes_of(state.directory.path());
    let error = state.open().unwrap_err().to_string();
    assert_eq!(stores::bytes_of(state.directory.path()), before);
    assert!(error.starts_with(&path.display().to_string()), "{error}");
    error
}

#[test]
fn a_journal_of_a_later_format_is_refused_and_left_as_it_is() {
    // The first line keeps its frame: a checksum, here of what a later agent would write, and a
    // length. What comes after it may be anything.
    let error = refused("journal", |_| {
        b"4a139142 00022 berth-journal-9 a b c\nwhatever".to_vec()
    });
    assert!(
        error.contains("it is in format 9, and this program knows formats up to 1: run the newer"),
        "{error}"
    );
}

#[test]
fn a_mark_of_a_later_format_is_refused_and_left_as_it_is() {
    let error = refused("agent.mark", |mut bytes| {
        bytes.resize(96, 0);
        bytes.extend_from_slice(&9_u64.to_le_bytes());
        bytes
    });
    assert!(error.contains("it is in format 9"), "{error}");
}

#[tokio::test]
async fn a_release_of_a_later_format_stays_in_the_queue_as_it_is() {
    let state = State::of(&stores::kept().pop().unwrap());
    let (agent, _) = state.open().unwrap();
    let queue = state.path("release-queue");
    let name = entry_name(&attachment(3));
    let later = br#"{"format": 9, "attachments": []}"#;
    fs::write(queue.join(&name), later).unwrap();
    fs::set_permissions(queue.join(&name), fs::Permissions::from_mode(0o600)).unwrap();
    for released in [1, 0, 0] {
        assert_eq!(state.drain(&agent).await, released, "the one beside it is released");
    }
    assert_eq!(fs::read(queue.join(&name)).unwrap(), later);
    assert!(!queue.join("broken").exists(), "nothing is put aside");
    assert!(
        agent.holdings().contains_key(&attachment(3)),
        "its address stays with its pod"
    );
}
