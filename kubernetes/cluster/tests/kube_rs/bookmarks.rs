//! Bookmarks: how far a watch has come, said without an object.

use berth_apiserver::{Options, Server};
use berth_testkit::until;
use berth_testkit::within;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::space::{in_space, object, version};
use crate::wait::next;
use crate::watch::watch;

#[test]
fn a_streaming_list_ends_with_a_bookmark_that_says_so() {
    in_space(async |space| {
        space.lease("a").await;
        let last = space.lease("b").await;
        let leases = space.api::<Lease>();
        let params = WatchParams::streaming_lists();
        // From no version in particular, which is the latest; 0 would be any.
        let mut stream = watch(&leases, &params, "").await;
        for name in ["a", "b"] {
            let event = next(name, &mut stream).await.unwrap();
            assert!(matches!(event, WatchEvent::Added(lease) if lease.name_any() == name));
        }
        let WatchEvent::Bookmark(bookmark) = next("the bookmark", &mut stream).await.unwrap()
        else {
            panic!("after the last object comes a bookmark");
        };
        assert_eq!(bookmark.metadata.annotations["k8s.io/initial-events-end"], "true");
        assert!(bookmark.metadata.resource_version.parse::<u64>().unwrap() >= version(&last));
        assert_eq!(bookmark.types.kind, "Lease");
        // The same stream goes on as a watch.
        space.lease("c").await;
        let event = next("what comes later", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Added(lease) if lease.name_any() == "c"));
    });
}

#[test]
fn a_watch_that_runs_out_leaves_a_bookmark_to_go_on_from() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let last = space.lease("a").await;
        let start = last.resource_version().unwrap();
        let params = WatchParams::default().timeout(4);
        // Kubernetes sends one two seconds before the end, but a server that is busy may be late
        // for it.
        let reached = until("a watch leaves a bookmark", async || {
            let stream = watch(&leases, &params, &start).await;
            let events = within("the watch ends", stream.try_collect::<Vec<_>>()).await.unwrap();
            let versions = events.into_iter().map(|event| match event {
                WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
                other => panic!("nothing has happened, but: {other:?}"),
            });
            versions.collect::<Vec<_>>().pop()
        })
        .await;
        assert!(reached.parse::<u64>().unwrap() >= version(&last));

        let mut stream = watch(&leases, &WatchParams::default(), &reached).await;
        space.lease("b").await;
        let event = next("only what is new", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Added(lease) if lease.name_any() == "b"));
    });
}

/// The embedded server alone: on tokio's clock a minute takes no time.
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_a_current_bookmark_each_minute() {
    let server = Server::open(Options::default()).await.unwrap();
    let leases: Api<Lease> = Api::default_namespaced(server.client());
    let others: Api<ConfigMap> = Api::default_namespaced(server.client());
    let start = leases.list(&ListParams::default()).await.unwrap().metadata;
    let start = start.resource_version.unwrap();
    let mut stream = watch(&leases, &WatchParams::default(), &start).await;
    let begin = Instant::now();
    for minute in 1..=3 {
        let other: ConfigMap = object(json!({"metadata": {"name": format!("other-{minute}")}}));
        let other = others.create(&PostParams::default(), &other).await.unwrap();
        let WatchEvent::Bookmark(bookmark) = stream.next().await.unwrap().unwrap() else {
            panic!("nothing has happened to leases");
        };
        assert_eq!(begin.elapsed().as_secs(), minute * 60);
        assert!(bookmark.metadata.resource_version.parse::<u64>().unwrap() >= version(&other));
    }
    let silent = WatchParams::default().disable_bookmarks().timeout(240);
    let stream = watch(&leases, &silent, &start).await;
    assert!(stream.try_collect::<Vec<_>>().await.unwrap().is_empty());
    server.stop().await;
}
