//! Watches as kube's `watcher` keeps them, and what lies under it: `Api::watch`.

use std::fmt::Debug;
use std::time::Duration;

use berth_apiserver::{Options, Server};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::space::{in_space, names, version};
use crate::wait::next;

/// Both ways in which a watcher learns what is there before it watches.
pub fn strategies() -> [watcher::Config; 2] {
    [watcher::Config::default(), watcher::Config::default().streaming_lists()]
}

/// A watch of what comes after a version.
pub async fn watch<K>(
    api: &Api<K>,
    params: &WatchParams,
    from: &str,
) -> BoxStream<'static, kube::Result<WatchEvent<K>>>
where
    K: Clone + DeserializeOwned + Debug + Send + 'static,
{
    api.watch(params, from).await.unwrap().boxed()
}

type Item = watcher::Result<Event<Lease>>;

/// Names of what is there at first, up to the end of the initial list.
async fn initial(stream: &mut (impl Stream<Item = Item> + Unpin)) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        match next("the initial list ends", stream).await.unwrap() {
            Event::Init => {}
            Event::InitApply(lease) => found.push(lease.name_any()),
            Event::InitDone => break,
            other => panic!("{other} before the initial list has ended"),
        }
    }
    found.sort();
    found
}

#[test]
fn a_watcher_sees_what_is_there_then_every_change() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        space.lease("a").await;
        for (number, config) in strategies().into_iter().enumerate() {
            let [b, c] = ["b", "c"].map(|name| format!("{name}{number}"));
            space.lease(&b).await;
            let mut stream = watcher(leases.clone(), config).boxed();
            let mut known = initial(&mut stream).await;
            // A streaming list may begin a moment ago: what it lacks comes as a change.
            while known != ["a", &b] {
                let event = next("what is there", &mut stream).await.unwrap();
                assert_eq!(event.to_string(), format!("Apply({b})"));
                known.push(b.clone());
            }
            space.lease(&c).await;
            space.label(&b, "seen", Some("yes")).await;
            for name in [&b, &c] {
                leases.delete(name, &DeleteParams::default()).await.unwrap();
            }
            for expected in [
                format!("Apply({c})"),
                format!("Apply({b})"),
                format!("Delete({b})"),
                format!("Delete({c})"),
            ] {
                let event = next(&expected, &mut stream).await.unwrap();
                assert_eq!(event.to_string(), expected);
            }
        }
    });
}

#[test]
fn every_watch_event_has_the_resource_version_of_its_write() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let start = leases.list(&ListParams::default()).await.unwrap();
        let start = start.metadata.resource_version.unwrap();
        let mut stream = watch(&leases, &WatchParams::default(), &start).await;

        let created = space.lease("a").await;
        let changed = space.label("a", "seen", Some("yes")).await;
        leases.delete("a", &DeleteParams::default()).await.unwrap();

        let WatchEvent::Added(added) = next("ADDED", &mut stream).await.unwrap() else {
            panic!("a creation is ADDED");
        };
        assert_eq!(added, created);
        let WatchEvent::Modified(modified) = next("MODIFIED", &mut stream).await.unwrap() else {
            panic!("a change is MODIFIED");
        };
        assert_eq!(modified, changed);
        let WatchEvent::Deleted(mut deleted) = next("DELETED", &mut stream).await.unwrap() else {
            panic!("a deletion is DELETED");
        };
        assert!(version(&added) < version(&modified));
        assert!(
            version(&modified) < version(&deleted),
            "the version is the deletion's own"
        );
        // Otherwise it is the last state.
        deleted.metadata.resource_version = modified.resource_version();
        assert_eq!(deleted, modified);
    });
}

#[test]
fn a_watch_from_a_version_repeats_what_came_after_it() {
    in_space(async |space| {
        let first = space.lease("a").await;
        space.label("a", "step", Some("1")).await;
        space.lease("b").await;
        let leases = space.api::<Lease>();
        let mut stream =
            watch(&leases, &WatchParams::default(), &first.resource_version().unwrap()).await;
        let event = next("the change of a", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Modified(lease) if lease.labels()["step"] == "1"));
        let event = next("the creation of b", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Added(lease) if lease.name_any() == "b"));
    });
}

#[test]
fn a_watcher_whose_watches_end_goes_on_where_it_was() {
    in_space(async |space| {
        for (number, config) in strategies().into_iter().enumerate() {
            let labels = json!({"round": number.to_string()});
            let config = config.timeout(1).labels(&format!("round={number}"));
            let mut stream = watcher(space.api::<Lease>(), config).boxed();
            assert!(initial(&mut stream).await.is_empty());
            // Longer than a watch lasts, with pauses for some of them to end in.
            for step in 0..4 {
                tokio::time::sleep(Duration::from_millis(400)).await;
                let name = format!("{number}-{step}");
                space
                    .have::<Lease>(json!({"metadata": {"name": name, "labels": labels}}))
                    .await;
                let event = next(&name, &mut stream).await.unwrap();
                assert_eq!(
                    event.to_string(),
                    format!("Apply({name})"),
                    "not from the start, and nothing twice"
                );
            }
        }
    });
}

/// The embedded server alone: how far back others can go is not ours to say.
#[tokio::test]
async fn a_watcher_that_fell_behind_is_told_so_and_starts_over() {
    const KEPT: usize = 8;
    for config in strategies() {
        let options = Options {
            keep_events: KEPT,
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        let leases: Api<Lease> = Api::default_namespaced(server.client());
        let create = async |name: String| {
            let metadata = ObjectMeta {
                name: Some(name),
                ..ObjectMeta::default()
            };
            let lease = Lease { metadata, spec: None };
            leases.create(&PostParams::default(), &lease).await.unwrap();
        };
        create("gone".to_owned()).await;
        let mut stream = watcher(leases.clone(), config).boxed();
        assert_eq!(initial(&mut stream).await, ["gone"]);

        // Nobody reads the stream meanwhile.
        leases.delete("gone", &DeleteParams::default()).await.unwrap();
        for number in 0..=KEPT {
            create(format!("new-{number}")).await;
        }

        let error = next("410", &mut stream).await.unwrap_err();
        assert!(
            matches!(&error, watcher::Error::WatchError(status) if status.code == 410),
            "{error}"
        );
        let now = leases.list(&ListParams::default()).await.unwrap();
        assert_eq!(initial(&mut stream).await, names(now));
        create("later".to_owned()).await;
        let event = next("a change after it", &mut stream).await.unwrap();
        assert_eq!(event.to_string(), "Apply(later)");
        server.stop().await;
    }
}
