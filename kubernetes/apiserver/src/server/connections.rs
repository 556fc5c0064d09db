//! Connections: TLS, then the token, then the router.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use berth_apimachinery::status::Status;
use berth_kit::serve::{Door, Limits};
use http::header;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

const LIMITS: Limits = Limits {
    // As in kube-apiserver, only open files limit them.
    connections: Semaphore::MAX_PERMITS,
    handshake: Duration::from_secs(30),
    connection: None,
    keep_alive: true,
    http2: Some(1000),
    buffer: 512 * 1024,
    // Requests that are under way get this long once the server stops.
    drain: Duration::from_millis(800),
};

pub async fn serve(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    router: Router,
    token: String,
    stop: CancellationToken,
) {
    let token: Arc<str> = token.into();
    let authenticate =
        move |request: Request, next: Next| authenticate(token.clone(), request, next);
    let door = Tls {
        listener,
        acceptor: TlsAcceptor::from(config),
        router: router.layer(middleware::from_fn(authenticate)),
    };
    LIMITS.serve(door, stop).await;
}

/// Lets everybody in: the token comes with each request.
struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    router: Router,
}

impl Door for Tls {
    type Accepted = TcpStream;
    type Stream = TlsStream<TcpStream>;

    async fn accept(&self) -> io::Result<TcpStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    async fn open(&self, stream: TcpStream) -> Option<(TlsStream<TcpStream>, Router)> {
        drop(stream.set_nodelay(true));
        let stream = self.acceptor.accept(stream).await.ok()?;
        Some((stream, self.router.clone()))
    }
}

async fn authenticate(token: Arc<str>, request: Request, next: Next) -> Response {
    if !is_public(request.uri().path()) && !has_token(&request, &token) {
        return crate::http::failure(&Status::unauthorized()).into_response();
    }
    next.run(request).await
}

/// Paths that need no token: health and version.
fn is_public(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version")
}

fn has_token(request: &Request, token: &str) -> bool {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    // Compares every byte, so that the time taken tells nothing about the token.
    let differences = given
        .bytes()
        .zip(token.bytes())
        .fold(0, |differences, (a, b)| differences | (a ^ b));
    given.len() == token.len() && differences == 0
}
