//! A listener that bounds its callers: how many are served at a time, and how long one may take.
//!
//! A caller that finds no room waits in the kernel's queue. The [`Door`] decides what a caller must
//! show before it is served.

mod tcp;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use tracing::{debug, warn};

pub use tcp::{Plain, Tls};

/// The pause after a failure to accept, such as too many open files: other connections may end
/// meanwhile.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Both ends of a dead HTTP/2 connection notice it after these.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PONG_TIMEOUT: Duration = Duration::from_secs(10);
const REQUESTS_PER_CONNECTION: u32 = 256;
/// Headers and a little more; the least that hyper takes is half of it.
const BUFFER: usize = 16 * 1024;

/// Who calls, and what that caller may see.
pub trait Door: Send + Sync + 'static {
    type Accepted: Send + 'static;
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;

    /// Lets a caller in, with what it may see; `None` if it is turned away. This may take
    /// [`Limits::handshake`].
    fn open(
        &self,
        accepted: Self::Accepted,
    ) -> impl Future<Output = Option<(Self::Stream, Router)>> + Send;
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections that are served at a time; others wait to be accepted.
    pub connections: usize,
    /// Time for the door to be opened, and for the head of a request to arrive.
    pub handshake: Duration,
    /// Time for a whole connection, if there is a limit.
    pub connection: Option<Duration>,
    /// Whether a connection may ask more than once.
    pub keep_alive: bool,
    /// Whether HTTP/2 is spoken, too.
    pub http2: bool,
    /// Time for what is under way when the server is told to stop.
    pub drain: Duration,
}

impl Limits {
    /// Serves until it is told to stop; what is under way then gets [`Limits::drain`]. If it is
    /// dropped, it serves nobody any more, not even callers that are connected.
    pub async fn serve(self, door: impl Door, stop: CancellationToken) {
        let room = Arc::new(Semaphore::new(self.connections));
        let connections = TaskTracker::new();
        // Ends what is still served when this future ends or is dropped.
        let over = CancellationToken::new();
        let _over = over.clone().drop_guard();
        let door = Arc::new(door);
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let place = Arc::clone(&room).acquire_owned().await.ok();
                (place, door.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok(accepted) => {
                    let (door, stop, over) = (Arc::clone(&door), stop.clone(), over.clone());
                    connections.spawn(async move {
                        let _place = place;
                        over.run_until_cancelled(self.connection(door, accepted, stop)).await;
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection; retrying");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
        // New callers learn at once that nobody listens, and not only when the last one has left.
        drop(door);
        connections.close();
        drop(tokio::time::timeout(self.drain, connections.wait()).await);
    }

    async fn connection<D: Door>(
        self,
        door: Arc<D>,
        accepted: D::Accepted,
        stop: CancellationToken,
    ) {
        let opened = tokio::time::timeout(self.handshake, door.open(accepted)).await;
        // The door holds the listener.
        drop(door);
        let Ok(Some((stream, router))) = opened else {
            return;
        };
        let served = self.requests(Box::new(stream), router, stop);
        let Some(limit) = self.connection else {
            return served.await;
        };
        if tokio::time::timeout(limit, served).await.is_err() {
            debug!("a connection exceeded its time limit; closing it");
        }
    }

    /// Takes any kind of stream, so that hyper's server is compiled once, here.
    fn requests(
        self,
        stream: Box<dyn Stream>,
        router: Router,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let service = service_fn(move |request: http::Request<Incoming>| {
                router.clone().oneshot(request.map(Body::new))
            });
            let mut builder = Builder::new(TokioExecutor::new());
            builder
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(self.handshake)
                .keep_alive(self.keep_alive)
                .max_buf_size(BUFFER);
            builder
                .http2()
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PONG_TIMEOUT)
                .max_concurrent_streams(REQUESTS_PER_CONNECTION);
            if !self.http2 {
                builder = builder.http1_only();
            }
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            // This is the caller's fault: it has gone, or does not speak HTTP.
            if let Err(error) = ended {
                debug!(%error, "a connection ended early");
            }
        })
    }
}
