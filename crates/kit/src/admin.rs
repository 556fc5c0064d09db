//! The small HTTP server for probes and metrics: `/healthz`, `/livez`, `/readyz` and `/metrics`.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use axum::{Router, extract::State, response::IntoResponse, routing::get};
use futures::future::BoxFuture;
use http::{StatusCode, header::CONTENT_TYPE};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    health::Readiness,
    listen::{self, BindError},
    metrics::{self, Metrics},
    serve::{Limits, Plain},
};

const LIMITS: Limits = Limits {
    connections: 256,
    // Prometheus keeps its connection, and scrapes once a minute.
    handshake: Duration::from_secs(120),
    connection: None,
    keep_alive: true,
    http2: Some(256),
    buffer: Limits::HEADERS,
    drain: Duration::from_secs(4),
};

/// The routes, for a server that has others as well (the dashboard) and for tests.
pub fn router(metrics: Metrics, readiness: Readiness) -> Router {
    Router::new()
        // An answer is proof of health: a process whose runtime is stuck gives none.
        .route("/healthz", get(async || "ok\n"))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz).with_state(readiness))
        .route("/metrics", get(scrape).with_state(metrics))
}

async fn readyz(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let waiting = readiness.not_ready();
    if waiting.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        let text = format!("not ready: {}\n", waiting.join(", "));
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

async fn scrape(State(metrics): State<Metrics>) -> impl IntoResponse {
    match metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            let text = format!("cannot encode the metrics: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

/// A bound server that does not serve yet, so that a port in use is found out before anything else
/// starts.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

impl Admin {
    pub fn bind(
        address: SocketAddr,
        metrics: Metrics,
        readiness: Readiness,
    ) -> BoxFuture<'static, Result<Self, BindError>> {
        Box::pin(async move {
            let (listener, address) = listen::bind("--metrics-listen", address).await?;
            Ok(Self {
                listener,
                address,
                router: router(metrics, readiness),
            })
        })
    }

    /// Adds routes beside its own.
    pub fn with(mut self, more: Router) -> Self {
        self.router = self.router.merge(more);
        self
    }

    /// The address that it listens on. If port 0 was asked for, this has the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`; requests that have begun are answered.
    pub fn serve(self, stop: CancellationToken) -> BoxFuture<'static, Result<(), Infallible>> {
        let (listener, router) = (self.listener, self.router);
        Box::pin(async move {
            LIMITS.serve(Plain { listener, router }, stop).await;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::{Request, Response};
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tower::ServiceExt;

    use super::*;

    async fn ask(router: &Router, path: &str) -> (Response<()>, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (head, body) = router.clone().oneshot(request).await.unwrap().into_parts();
        let text = body.collect().await.unwrap().to_bytes().to_vec();
        (Response::from_parts(head, ()), String::from_utf8(text).unwrap())
    }

    #[tokio::test]
    async fn readyz_lists_checks_that_are_not_ready_and_livez_stays_ok() {
        let readiness = Readiness::default();
        let router = router(Metrics::new("1.2.3"), readiness.clone());
        let (store, nodes) = (readiness.check("store"), readiness.check("nodes"));

        let (head, text) = ask(&router, "/readyz").await;
        assert_eq!(head.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "not ready: store, nodes\n");
        for path in ["/healthz", "/livez"] {
            assert_eq!(ask(&router, path).await.0.status(), StatusCode::OK);
        }

        store.ready();
        nodes.ready();
        let (head, text) = ask(&router, "/readyz").await;
        assert_eq!((head.status(), text.as_str()), (StatusCode::OK, "ok\n"));
    }

    #[tokio::test]
    async fn metrics_are_openmetrics_text() {
        let router = router(Metrics::new("1.2.3"), Readiness::default());
        let (head, text) = ask(&router, "/metrics").await;
        assert_eq!(head.headers()[CONTENT_TYPE], metrics::CONTENT_TYPE);
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[tokio::test]
    async fn serves_on_the_port_it_tells_and_ends_when_told() {
        let local = "127.0.0.1:0".parse().unwrap();
        let admin = Admin::bind(local, Metrics::new("1.2.3"), Readiness::default())
            .await
            .unwrap();
        let address = admin.address();
        let stop = CancellationToken::new();
        let server = tokio::spawn(admin.serve(stop.clone()));

        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");

        stop.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_port_in_use_names_the_flag() {
        let (_listener, taken) =
            listen::bind("--listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let error = Admin::bind(taken, Metrics::new("1.2.3"), Readiness::default())
            .await
            .unwrap_err();
        assert!(error.to_string().starts_with("--metrics-listen 127.0.0.1:"), "{error}");
    }
}
