//! Doors on a TCP listener: one with TLS, and one without it, for loopback.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::warn;

use super::Door;
use crate::tls::ServerTls;

/// A refused caller may still be sending: the connection stays open this long, so that the caller
/// can read why.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Lets everybody in.
#[derive(Debug)]
pub struct Plain {
    pub listener: TcpListener,
    pub router: Router,
}

impl Door for Plain {
    type Accepted = TcpStream;
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    async fn open(&self, stream: TcpStream) -> Option<(TcpStream, Router)> {
        drop(stream.set_nodelay(true));
        Some((stream, self.router.clone()))
    }
}

type RouterOf = dyn Fn(Option<&CertificateDer<'static>>) -> Router + Send + Sync;

/// Lets in callers whose certificate [`ServerTls`] accepts, or everybody if it asks for none.
pub struct Tls {
    pub listener: TcpListener,
    pub tls: ServerTls,
    /// The routes for a caller with this certificate, which is `None` if the server asks for none.
    pub router: Box<RouterOf>,
    /// Called for each caller that is turned away, for a metric.
    pub refused: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Tls");
        fields.field("listener", &self.listener).field("tls", &self.tls);
        fields.finish_non_exhaustive()
    }
}

impl Door for Tls {
    type Accepted = (TcpStream, SocketAddr);
    type Stream = TlsStream<TcpStream>;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.listener.accept().await
    }

    async fn open(&self, (stream, peer): Self::Accepted) -> Option<(Self::Stream, Router)> {
        // A handshake that takes too long counts as a refusal, too: this future is then dropped.
        let refusal = OnDrop(Some(&*self.refused));
        drop(stream.set_nodelay(true));
        let acceptor = TlsAcceptor::from(self.tls.config());
        match acceptor.accept(stream).into_fallible().await {
            Ok(stream) => {
                refusal.disarm();
                let (_, connection) = stream.get_ref();
                let certificates = connection.peer_certificates();
                let router = (self.router)(certificates.and_then(<[_]>::first));
                Some((stream, router))
            }
            Err((error, stream)) => {
                warn!(%peer, %error, "TLS handshake failed; closing the connection");
                linger(stream).await;
                None
            }
        }
    }
}

/// Calls its function when it is dropped, unless it is disarmed.
struct OnDrop<'a>(Option<&'a (dyn Fn() + Send + Sync)>);

impl OnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.0 {
            call();
        }
    }
}

/// The alert that says why has been sent. If the connection were closed at once, with unread bytes
/// of the caller, the kernel would reset it and the alert could be lost: the caller would not know
/// that its certificate is the reason.
async fn linger(mut stream: TcpStream) {
    let reading = async {
        drop(stream.shutdown().await);
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await.is_ok_and(|length| length > 0) {}
    };
    drop(tokio::time::timeout(LINGER_TIMEOUT, reading).await);
}
