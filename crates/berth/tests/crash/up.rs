//! `berth up` killed with SIGKILL in a storm of writes, again and again: what was answered is
//! there, nothing is there by half, and a watch goes on or is told to list again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use kube::{Client, Config};

const KILLS: u64 = 50;
const WRITERS: u64 = 8;

struct Up {
    process: Child,
    client: Client,
}

impl Up {
    async fn start(directory: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_berth"))
            .arg("up")
            .arg("--data-dir")
            .arg(directory)
            .args([
                "--nodes",
                "1",
                "--api-listen",
                "127.0.0.1:0",
                "--dashboard-listen",
                "127.0.0.1:0",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().expect("berth ended before it was up").unwrap();
        assert!(first.starts_with("Berth is up"), "{first}");
        let kubeconfig = Kubeconfig::read_from(directory.join("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        Self {
            process,
            client: Client::try_from(config).unwrap(),
        }
    }

    fn kill(mut self) {
        // SIGKILL: no handler runs, no buffer is flushed.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// What a writer knows of one of its objects.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The last state that was answered: a number, or gone.
    answered: Option<u64>,
    /// A write that was sent and not answered may have happened, or not: `Some(None)` is a delete.
    asked: Option<Option<u64>>,
    version: u64,
}

type Book = Arc<Mutex<BTreeMap<String, Known>>>;

fn object(name: &str, number: u64) -> ConfigMap {
    // The number stands twice, far apart: half of a write would show.
    let padding = "x".repeat(2_000);
    let data = [("a", number.to_string()), ("m", padding), ("z", number.to_string())];
    ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        data: Some(data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ..Default::default()
    }
}

fn number(map: &ConfigMap) -> u64 {
    let data = map.data.as_ref().unwrap();
    assert_eq!(data["a"], data["z"], "half of a write: {:?}", map.metadata.name);
    data["a"].parse().unwrap()
}

fn version(map: &ConfigMap) -> u64 {
    map.metadata.resource_version.as_ref().unwrap().parse().unwrap()
}

/// Creates, updates and deletes its own objects until the server is gone.
async fn storm(api: Api<ConfigMap>, writer: u64, round: u64, book: Book) {
    for step in 0.. {
        let name = format!("w{writer}-{}", step % 5);
        let before = book.lock().unwrap().get(&name).copied().unwrap_or_default();
        let next = round * 1_000_000 + step;
        let asked_for = if before.answered.is_some() && step % 7 == 6 {
            None
        } else {
            Some(next)
        };
        book.lock().unwrap().insert(
            name.clone(),
            Known {
                asked: Some(asked_for),
                ..before
            },
        );
        let outcome = match (before.answered, asked_for) {
            (None, Some(next)) => api
                .create(&PostParams::default(), &object(&name, next))
                .await
                .map(|map| version(&map)),
            (Some(_), Some(next)) => {
                let patch = Patch::Merge(object(&name, next));
                api.patch(&name, &PatchParams::default(), &patch)
                    .await
                    .map(|map| version(&map))
            }
            (_, None) => api
                .delete(&name, &DeleteParams::default())
                .await
                .map(|_| before.version),
        };
        match outcome {
            Ok(version) => drop(book.lock().unwrap().insert(
                name,
                Known {
                    answered: asked_for,
                    asked: None,
                    version,
                },
            )),
            // The connection broke: whether it was done, the next round finds out.
            Err(kube::Error::Api(status)) => panic!("{name}: {status:?}"),
            Err(_) => return,
        }
    }
}

/// Compares what is there with what was answered, and takes over what an unanswered write has left.
async fn verify(api: &Api<ConfigMap>, book: &Book) {
    let list = api.list(&ListParams::default()).await.unwrap();
    let list_version: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
    let found: BTreeMap<String, &ConfigMap> = list
        .items
        .iter()
        .map(|map| (map.metadata.name.clone().unwrap(), map))
        .collect();
    let mut book = book.lock().unwrap();
    for (name, known) in book.iter_mut() {
        let there = found.get(name).map(|map| number(map));
        let allowed = there == known.answered || known.asked.is_some_and(|asked| there == asked);
        assert!(allowed, "{name}: found {there:?}, known {known:?}");
        assert!(
            list_version >= known.version,
            "{name}: the version went back to {list_version}: {known:?}"
        );
        let version = found.get(name).map_or(known.version, |map| version(map));
        *known = Known {
            answered: there,
            asked: None,
            version,
        };
    }
    for name in found.keys().filter(|name| name.starts_with('w')) {
        assert!(book.contains_key(name), "{name}: nobody made it");
    }
}

/// A watch from before the crash goes on where it was, or gets 410; it never skips in silence.
async fn resumes_or_is_told(api: &Api<ConfigMap>, before: u64) {
    let list = api.list(&ListParams::default()).await.unwrap();
    let since = list
        .items
        .iter()
        .map(version)
        .filter(|version| *version > before)
        .count();
    let params = WatchParams::default().timeout(1);
    let events: Vec<_> = api.watch(&params, &before.to_string()).await.unwrap().collect().await;
    let told = events.iter().any(|event| match event {
        Ok(WatchEvent::Error(status)) => status.code == 410,
        Err(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    });
    assert!(
        told || events.len() >= since,
        "from {before} on: {since} changes, {} events",
        events.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_fifty_kills() {
    let directory = tempfile::tempdir().unwrap();
    let book = Book::default();
    for round in 0..KILLS {
        let up = Up::start(directory.path()).await;
        let api: Api<ConfigMap> = Api::default_namespaced(up.client.clone());
        verify(&api, &book).await;
        let last = book.lock().unwrap().values().map(|known| known.version).max();
        if let Some(last) = last {
            resumes_or_is_told(&api, last).await;
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(storm(api.clone(), writer, round, book.clone())))
            .collect();
        // Spread over the time that a few commits take; the kill falls anywhere in them.
        tokio::time::sleep(Duration::from_millis(40 + (round * 37) % 110)).await;
        up.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let up = Up::start(directory.path()).await;
    verify(&Api::default_namespaced(up.client.clone()), &book).await;
    let written = book.lock().unwrap().values().map(|known| known.version).max();
    assert!(
        written.is_some_and(|version| version > KILLS),
        "the storm wrote next to nothing: {written:?}"
    );
    up.kill();
}
