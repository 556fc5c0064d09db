//! The port, and what bounds its callers: connections, and the time that one may take.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_kit::listen::{BindError, bind};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Those that are served at a time; others wait to be accepted.
const MOST_CONNECTIONS: usize = 64;
/// For a request to be there, and for a connection in all: nothing is waited for in between.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// After a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

const FLAG: &str = "--compat-listen";

#[derive(Debug, thiserror::Error)]
pub enum CompatError {
    #[error(
        "{FLAG} {0}: whoever reaches it can take addresses from pods, so it must be a loopback address, like 127.0.0.1:10090"
    )]
    Open(SocketAddr),
    #[error(transparent)]
    Bind(#[from] BindError),
}

#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    pub async fn bind(address: SocketAddr) -> Result<Self, CompatError> {
        if !address.ip().is_loopback() {
            return Err(CompatError::Open(address));
        }
        let (listener, address) = bind(FLAG, address).await?;
        Ok(Self { listener, address })
    }

    /// Where it listens: the port that was picked, when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is told to stop. What is under way then ends with the process.
    pub async fn serve(self, router: Router, stopping: CancellationToken) {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let serving = async {
            loop {
                let Ok(place) = places.clone().acquire_owned().await else {
                    return;
                };
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let router = router.clone();
                        tokio::spawn(async move {
                            serve_one(stream, router).await;
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
}

/// One request: a plugin makes no second one, and one that is kept open takes the place of another.
async fn serve_one(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection ended early"),
        Err(_) => debug!("a connection took too long"),
    }
}
