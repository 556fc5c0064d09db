//! Connections: TLS with the client's certificate first, then requests that carry whose it is.

use std::io::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::{debug, warn};

use super::Limits;
use super::metrics::ServiceMetrics;
use super::target::Caller;
use crate::certificate::{self, CertificateError};

/// Both ends of an HTTP/2 connection that died without a word find out after these.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(10);
/// A client that was refused may still be sending: until it has read why, the connection is not torn down.
const LAST_WORDS: Duration = Duration::from_secs(2);
const REQUESTS_PER_CONNECTION: u32 = 256;

/// TLS for a service with this certificate and key, for clients whose certificate one of `client_ca` has signed and for no others.
pub fn tls(certificate: &Path, key: &Path, client_ca: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
    let provider = certificate::provider();
    let roots = Arc::new(certificate::authorities(client_ca)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|error| CertificateError::Authority {
        path: client_ca.to_owned(),
        why: error.to_string(),
    })?;
    let unusable = |error: rustls::Error| CertificateError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        why: error.to_string(),
    };
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(unusable)?.with_client_cert_verifier(verifier);
    let config = config.with_single_cert(certificate::chain(certificate)?, certificate::key(key)?);
    let mut config = config.map_err(unusable)?;
    // Every connection shows its certificate: one that has expired must not live on in a session that is resumed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// What all connections share.
pub struct Connections {
    pub router: Router,
    pub acceptor: TlsAcceptor,
    pub limits: Limits,
    pub metrics: ServiceMetrics,
    pub stop: CancellationToken,
}

impl Connections {
    /// Until it is told to stop; what is under way then gets `limits.drain`.
    pub async fn serve(self, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(self.limits.connections));
        let connections = TaskTracker::new();
        let this = Arc::new(self);
        loop {
            let accepted = async {
                // Those who find no room wait in the kernel's queue. The semaphore is never closed.
                let place = Arc::clone(&room).acquire_owned().await.ok();
                (place, listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = this.stop.cancelled() => break,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let this = Arc::clone(&this);
                    connections.spawn(async move {
                        let _place = place;
                        this.connection(stream, peer).await;
                    });
                }
                Err(error) => {
                    // Out of file descriptors, most likely: others may end meanwhile.
                    warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        connections.close();
        drop(tokio::time::timeout(this.limits.drain, connections.wait()).await);
    }

    async fn connection(&self, stream: TcpStream, peer: SocketAddr) {
        drop(stream.set_nodelay(true));
        let stream = match tokio::time::timeout(self.limits.handshake, self.handshake(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err((error, stream))) => {
                self.metrics.refuse_connection();
                warn!(%peer, %error, "refused a connection");
                farewell(stream).await;
                return;
            }
            Err(_) => {
                self.metrics.refuse_connection();
                debug!(%peer, "a handshake took too long");
                return;
            }
        };
        let caller = caller(&stream);
        let router = self.router.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            if let Some(caller) = &caller {
                request.extensions_mut().insert(caller.clone());
            }
            router.clone().oneshot(request)
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.handshake);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN)
            .max_concurrent_streams(REQUESTS_PER_CONNECTION);
        let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%peer, %error, "connection");
        }
    }

    async fn handshake(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, (Error, TcpStream)> {
        self.acceptor.accept(stream).into_fallible().await
    }
}

/// The alert that says why is sent. Closed at once, with bytes of the client's that nobody has read, the kernel would reset the connection and the
/// alert could be lost: the client would not know that its certificate is the reason.
async fn farewell(mut stream: TcpStream) {
    let reading = async {
        drop(stream.shutdown().await);
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await.is_ok_and(|length| length > 0) {}
    };
    drop(tokio::time::timeout(LAST_WORDS, reading).await);
}

/// `None` for a certificate that is for no cluster.
fn caller(stream: &TlsStream<TcpStream>) -> Option<Caller> {
    let (_, connection) = stream.get_ref();
    let certificate = connection.peer_certificates()?.first()?;
    let cluster = certificate::common_name(certificate)?.into();
    Some(Caller { cluster })
}
