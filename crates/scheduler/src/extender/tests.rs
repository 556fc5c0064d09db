//! The verbs, over HTTP's types and on a real API server where they write.

mod bad_input;
mod binding;
mod placing;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use berth_kit::metrics::Metrics;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::{Extender, Session};
use crate::accounting::Settings;
use crate::books::Books;
use crate::capacity::CidrCapacity;
use crate::facts::{NodeFacts, PodFacts};
use crate::metrics::SchedulerMetrics;

/// An extender that serves, and its accounting.
struct Stage {
    router: Router,
    books: Books,
    extender: Extender,
}

impl Stage {
    fn new(client: Client) -> Self {
        let metrics = Metrics::new("1").register(SchedulerMetrics::register);
        let extender = Extender::new(metrics);
        let books = Books::new(Settings::default());
        let session = Session {
            books: books.clone(),
            client,
            term: None,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        extender.serve(Some(Arc::new(session)));
        Self {
            router: extender.router(),
            books,
            extender,
        }
    }

    /// Without an API server: for verbs that do not write.
    fn alone() -> Self {
        let nobody = tower::service_fn(async |_: Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other(
                "nobody answers here",
            ))
        });
        Self::new(Client::new(nobody, "default"))
    }

    fn node(&self, name: &str, pods: u64) {
        let facts = NodeFacts {
            cidrs: CidrCapacity::Pods(pods),
            ..NodeFacts::default()
        };
        self.books.change(|accounting| accounting.apply_node(name, facts));
    }

    fn bound(&self, uid: &str, node: &str) {
        let facts = PodFacts {
            needs_ip: true,
            node: Some(node.to_owned()),
            ..PodFacts::default()
        };
        self.books.change(|accounting| accounting.apply_pod(uid, &facts));
    }

    async fn send(&self, path: &str, body: String) -> (StatusCode, String) {
        let request = Request::post(path).body(Body::from(body)).unwrap();
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let text = body.collect().await.unwrap().to_bytes().to_vec();
        (head.status, String::from_utf8(text).unwrap())
    }

    async fn ask(&self, path: &str, body: Value) -> Value {
        let (status, text) = self.send(path, body.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

fn pod(uid: &str, spec: Value) -> Value {
    json!({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec})
}

fn names(nodes: &[&str]) -> Value {
    json!({"Pod": pod("new", json!({})), "Nodes": null, "NodeNames": nodes})
}
