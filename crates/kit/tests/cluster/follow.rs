//! A watch that lasts: when it lists again, and how often it asks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_kit::follow::follow;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::client::Body;
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use serde_json::{Value, json};

/// What a server answers, and how often it was asked.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    version: u64,
    lists: u64,
    watches: u64,
    /// Watches are told that they are too old.
    is_expired: bool,
}

type Shared = Arc<Mutex<Server>>;

fn answer(server: &mut Server, is_watch: bool) -> Value {
    let version = server.version.to_string();
    let metadata = json!({"resourceVersion": version});
    let list =
        json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": []});
    match (is_watch, server.is_expired) {
        (false, _) => {
            server.lists += 1;
            assert!(server.lists < 10_000, "it asks all the time");
            list
        }
        (true, true) => {
            server.watches += 1;
            json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
        }
        (true, false) => {
            server.watches += 1;
            Value::Null
        }
    }
}

/// A watch lasts a minute, and has nothing to tell.
fn client(server: &Shared) -> Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let answer = answer(&mut server.lock().unwrap(), is_watch);
        async move {
            if answer.is_null() {
                tokio::time::sleep(Duration::from_secs(60)).await;
                return Ok::<_, std::io::Error>(Response::new(Body::empty()));
            }
            Ok(Response::new(Body::from(format!("{answer}\n").into_bytes())))
        }
    });
    Client::new(service, "default")
}

/// How often all was listed in `time`.
async fn listed_in(server: &Shared, time: Duration) -> u64 {
    let count = Mutex::new(0);
    let api: Api<ConfigMap> = Api::default_namespaced(client(server));
    let following = follow(api, ListParams::default(), |event| {
        if matches!(event, Event::InitDone) {
            *count.lock().unwrap() += 1;
        }
    });
    let _ = tokio::time::timeout(time, following).await;
    *count.lock().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_without_a_list() {
    let server = Shared::default();
    server.lock().unwrap().version = 9;
    assert_eq!(listed_in(&server, Duration::from_secs(600)).await, 1);
    assert!(server.lock().unwrap().watches >= 9, "{server:?}");
}

#[tokio::test(start_paused = true)]
async fn all_is_listed_again_when_the_server_is_behind_what_was_seen() {
    let server = Shared::default();
    server.lock().unwrap().version = 900;
    let restored = Arc::clone(&server);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(90)).await;
        restored.lock().unwrap().version = 30;
    });
    assert_eq!(listed_in(&server, Duration::from_secs(600)).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_says_expired_is_asked_less_and_less_often() {
    let server = Shared::default();
    server.lock().unwrap().is_expired = true;
    listed_in(&server, Duration::from_secs(600)).await;
    let asked = *server.lock().unwrap();
    assert!((10..40).contains(&asked.lists), "{asked:?}");
}
