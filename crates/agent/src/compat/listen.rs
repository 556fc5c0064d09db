//! The port, and its limits: the number of connections, and the time that one may take.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use berth_kit::listen::{BindError, bind};
use berth_kit::serve::{Limits, Plain};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// One request for each connection: a plugin makes no second one, and a connection that is kept
/// open takes the place of another. A stop does not wait for connections.
const LIMITS: Limits = Limits {
    connections: 64,
    handshake: Duration::from_secs(5),
    connection: Some(Duration::from_secs(15)),
    keep_alive: false,
    http2: None,
    buffer: Limits::HEADERS,
    drain: Duration::ZERO,
};

const FLAG: &str = "--compat-listen";

#[derive(Debug, thiserror::Error)]
pub enum CompatError {
    #[error(
        "{FLAG} {0}: whoever reaches it can take addresses from pods, so it must be a \
         loopback address, like 127.0.0.1:10090"
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
    /// Refuses an address that is not a loopback address.
    pub fn check(address: SocketAddr) -> Result<(), CompatError> {
        let is_closed = address.ip().is_loopback();
        is_closed.then_some(()).ok_or(CompatError::Open(address))
    }

    pub async fn bind(address: SocketAddr) -> Result<Self, CompatError> {
        Self::check(address)?;
        let (listener, address) = bind(FLAG, address).await?;
        Ok(Self { listener, address })
    }

    /// Where it listens: the port that was picked, when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is told to stop.
    pub async fn serve(self, router: Router, stopping: CancellationToken) {
        let door = Plain {
            listener: self.listener,
            router,
        };
        LIMITS.serve(door, stopping).await;
    }
}
