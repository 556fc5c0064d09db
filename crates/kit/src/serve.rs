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
/// The server notices a dead HTTP/2 connection after both of these.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PONG_TIMEOUT: Duration = Duration::from_secs(10);

/// Decides which callers are let in, and what each of them may see.
pub trait Door: Send + Sync + 'static {
    type Accepted: Send + 'static;
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;

    /// Lets a caller in: returns its stream and the routes that it may see, or `None` if it is
    /// turned away. This may take as long as [`Limits::handshake`].
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
    /// Time for [`Door::open`], and again for the head of a request to arrive.
    pub handshake: Duration,
    /// Time for a whole connection, if there is a limit.
    pub connection: Option<Duration>,
    /// Whether a connection may carry more than one request.
    pub keep_alive: bool,
    /// Requests that an HTTP/2 connection may have under way; `None` serves HTTP/1.1 only.
    pub http2: Option<u32>,
    /// The most bytes that are buffered for an HTTP/1.1 connection.
    pub buffer: usize,
    /// Time for connections to finish when the server is told to stop.
    pub drain: Duration,
}

impl Limits {
    /// A [`Limits::buffer`] for headers and a little more. hyper takes no less than half of it.
    pub const HEADERS: usize = 16 * 1024;

    /// Serves until `stop`; open connections then get [`Limits::drain`] to finish. Dropping the
    /// future ends them at once.
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
        // This closes the listener. New callers learn at once that nobody listens, and not only
        // when the last one has left.
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
                .max_buf_size(self.buffer);
            builder
                .http2()
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PONG_TIMEOUT)
                .max_concurrent_streams(self.http2);
            if self.http2.is_none() {
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
