//! What bounds the callers of a listener: how many are served at a time, and how long one may take.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// After a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// Headers and a little more.
const BUFFER: usize = 16 * 1024;

/// Who calls, and what that one may see.
pub trait Door: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    fn router(&self, stream: &Self::Stream) -> Router;
}

#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// Those that are served at a time; others wait to be accepted.
    pub most: usize,
    /// For the header of a request to be there.
    pub header: Duration,
    /// For a connection in all.
    pub whole: Duration,
    /// Whether a connection may ask more than once.
    pub keep_alive: bool,
}

impl Connections {
    /// Serves until it is told to stop, or dropped: then nobody is served any more, not even who is
    /// connected.
    pub async fn serve(self, door: impl Door, stopping: CancellationToken) {
        let places = Arc::new(Semaphore::new(self.most));
        let serving = async {
            let mut connected = JoinSet::new();
            loop {
                while connected.try_join_next().is_some() {}
                let Ok(place) = places.clone().acquire_owned().await else {
                    return;
                };
                match door.accept().await {
                    Ok(stream) => {
                        let router = door.router(&stream);
                        connected.spawn(async move {
                            self.serve_one(stream, router).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        warn!(%error, "can't accept a connection");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        };
        stopping.run_until_cancelled(serving).await;
    }

    async fn serve_one<S>(self, stream: S, router: Router)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header)
            .keep_alive(self.keep_alive)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        match tokio::time::timeout(self.whole, connection).await {
            Ok(Ok(())) => {}
            // The caller's affair: it has gone, or does not speak HTTP.
            Ok(Err(error)) => debug!(%error, "a connection ended early"),
            Err(_) => debug!("a connection took too long"),
        }
    }
}
