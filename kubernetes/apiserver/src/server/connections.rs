//! Connections: TLS, then the token, then the router.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use berth_apimachinery::status::Status;
use http::header;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// Requests that are under way get this long once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(800);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub async fn serve(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    router: Router,
    token: String,
    stop: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(config);
    let token: Arc<str> = token.into();
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Probably out of file descriptors. Other connections may end meanwhile.
                    tracing::warn!(%error, "cannot accept a connection; retrying");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let one = connection(stream, acceptor.clone(), router.clone(), token.clone(), stop.clone());
        connections.spawn(one);
    }
    connections.close();
    drop(tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await);
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    token: Arc<str>,
    stop: CancellationToken,
) {
    drop(stream.set_nodelay(true));
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await
    else {
        return;
    };
    let service = tower::service_fn(move |request: Request<hyper::body::Incoming>| {
        let (router, token) = (router.clone(), token.clone());
        async move { authenticate(router, &token, request.map(axum::body::Body::new)).await }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended with an error");
    }
}

async fn authenticate(
    router: Router,
    token: &str,
    request: Request,
) -> Result<Response, std::convert::Infallible> {
    if !is_public(request.uri().path()) && !has_token(&request, token) {
        return Ok(crate::http::failure(&Status::unauthorized()).into_response());
    }
    router.oneshot(request).await
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
