//! A watch that lasts: when it lists again, how often it asks, and where it goes on.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_kit::follow::follow;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::client::Body;
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt};
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

/// A client whose watches last a minute and send nothing.
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

/// How many whole lists there are in `time`.
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
async fn relists_back_off_while_the_server_always_answers_expired() {
    let server = Shared::default();
    server.lock().unwrap().is_expired = true;
    listed_in(&server, Duration::from_secs(600)).await;
    let asked = *server.lock().unwrap();
    assert!((10..40).contains(&asked.lists), "{asked:?}");
}

fn config_map(version: &str) -> Value {
    json!({"metadata": {"name": "a", "resourceVersion": version, "managedFields": [{}]}})
}

/// A watch from version 1 sends a change, and a second later what `rest` returns. Later watches are
/// silent. Returns what was told, and the versions that the watches began at.
async fn told_when_a_watch_ends(
    rest: impl Fn() -> io::Result<&'static str> + Clone + Send + 'static,
) -> (Vec<String>, Vec<String>) {
    let (told, began) = (Mutex::new(Vec::new()), Arc::new(Mutex::new(Vec::new())));
    let versions = Arc::clone(&began);
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
        let from = from.unwrap_or_default().to_owned();
        let is_watch = query.contains("watch=true");
        if is_watch {
            versions.lock().unwrap().push(from.clone());
        }
        let rest = rest.clone();
        async move {
            if !is_watch {
                // The request for the server's version asks for one object. Its answer is 9.
                let (version, items) = match query.split('&').any(|part| part == "limit=1") {
                    true => ("9", Value::Null),
                    false => ("1", json!([config_map("1")])),
                };
                let list = json!({"metadata": {"resourceVersion": version}, "items": items});
                let text = Frame::data(Bytes::from(list.to_string()));
                let body = StreamBody::new(stream::iter([Ok(text)]));
                return Ok::<_, io::Error>(Response::new(body.boxed_unsync()));
            }
            if from != "1" {
                std::future::pending::<()>().await;
            }
            let change = json!({"type": "MODIFIED", "object": config_map("2")});
            let first = stream::iter([Ok(Frame::data(Bytes::from(format!("{change}\n"))))]);
            let second = stream::once(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                rest().map(|text| Frame::data(Bytes::from_static(text.as_bytes())))
            });
            Ok(Response::new(StreamBody::new(first.chain(second)).boxed_unsync()))
        }
    });
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(service, "default"));
    let following = follow(api, ListParams::default(), |event: Event<ConfigMap>| {
        let shown = |object: &ConfigMap| {
            assert_eq!(object.metadata.managed_fields, None);
            object.resource_version().unwrap()
        };
        told.lock().unwrap().push(match event {
            Event::Init => "init".to_owned(),
            Event::InitApply(object) => format!("listed {}", shown(&object)),
            Event::InitDone => "done".to_owned(),
            Event::Apply(object) => format!("changed {}", shown(&object)),
            Event::Delete(object) => format!("deleted {}", shown(&object)),
        });
    });
    let _ = tokio::time::timeout(Duration::from_secs(30), following).await;
    let began = began.lock().unwrap().clone();
    (told.into_inner().unwrap(), began)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_goes_on_after_the_last_whole_event() {
    let ends: [fn() -> io::Result<&'static str>; 4] = [
        || Ok(""),
        || Ok(r#"{"type":"MODIFIED","object":{"meta"#),
        || Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        || Err(io::Error::from(io::ErrorKind::ConnectionReset)),
    ];
    for end in ends {
        let (told, began) = told_when_a_watch_ends(end).await;
        assert_eq!(told, ["init", "listed 1", "done", "changed 2"]);
        assert_eq!(began, ["1", "2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_can_not_be_read_is_asked_for_again() {
    let (told, began) = told_when_a_watch_ends(|| Ok("{\"type\":\"ADDED\",\"object\":7}\n")).await;
    assert_eq!(told, ["init", "listed 1", "done", "changed 2"]);
    assert_eq!(began, ["1", "2"]);
    let (told, began) = told_when_a_watch_ends(|| Ok("<html>\n")).await;
    assert_eq!((told.len(), began.len()), (4, 2));
}
