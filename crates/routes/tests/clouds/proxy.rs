//! A proxy to a cloud that records calls and injects faults.

use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;

/// An answer instead of the cloud's; `None` to let the request through.
type Instead = Box<dyn FnMut(&Parts, &str) -> Option<Response> + Send>;
/// The cloud's answer, changed.
type After = Box<dyn FnMut(&Parts, String) -> String + Send>;

pub struct Proxy {
    pub port: u16,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    instead: Instead,
    after: After,
    calls: Vec<String>,
}

impl Proxy {
    pub fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let inner = Arc::new(Mutex::new(Inner {
            instead: Box::new(|_, _| None),
            after: Box::new(|_, body| body),
            calls: Vec::new(),
        }));
        let shared = inner.clone();
        let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let forward = move |request: Request| {
            let (shared, client) = (shared.clone(), client.clone());
            async move {
                let (mut parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let text = String::from_utf8_lossy(&body).into_owned();
                let instead = {
                    let mut inner = shared.lock();
                    inner
                        .calls
                        .push(format!("{} {} {text}", parts.method, parts.uri));
                    (inner.instead)(&parts, &text)
                };
                if let Some(instead) = instead {
                    return instead;
                }
                let path = parts.uri.path_and_query().unwrap().to_string();
                parts.uri = format!("http://127.0.0.1:{upstream}{path}")
                    .parse()
                    .unwrap();
                let seen = parts.clone();
                let answer = client
                    .request(Request::from_parts(parts, Full::new(body)))
                    .await
                    .unwrap();
                let (mut head, body) = answer.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = String::from_utf8_lossy(&body).into_owned();
                let body = (shared.lock().after)(&seen, body);
                head.headers.remove("content-length");
                head.headers.remove("transfer-encoding");
                Response::from_parts(head, body.into())
            }
        };
        let router = Router::new().fallback(forward);
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { port, inner }
    }

    pub fn instead(&self, instead: impl FnMut(&Parts, &str) -> Option<Response> + Send + 'static) {
        self.inner.lock().instead = Box::new(instead);
    }

    pub fn after(&self, after: impl FnMut(&Parts, String) -> String + Send + 'static) {
        self.inner.lock().after = Box::new(after);
    }

    /// Method, path and body of each.
    pub fn calls(&self) -> Vec<String> {
        self.inner.lock().calls.clone()
    }
}
