//! The port, and what bounds its callers: connections, and the time that one may take.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use berth_kit::listen::{BindError, bind};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::connections::{Connections, Door};

/// One request each: a plugin makes no second one, and a connection that is kept open takes the place of another. Nothing is waited for.
const CONNECTIONS: Connections = Connections {
    most: 64,
    header: Duration::from_secs(5),
    whole: Duration::from_secs(15),
    keep_alive: false,
};

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
    /// Whether it may be listened on.
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
        let door = Open {
            listener: self.listener,
            router,
        };
        CONNECTIONS.serve(door, stopping).await;
    }
}

/// Whoever reaches it is served.
struct Open {
    listener: TcpListener,
    router: Router,
}

impl Door for Open {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    fn router(&self, _: &TcpStream) -> Router {
        self.router.clone()
    }
}
