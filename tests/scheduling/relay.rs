//! Leads kube-scheduler to the replica that is ready, as a Service does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub struct Relay {
    pub port: u16,
    target: Arc<Mutex<Target>>,
}

struct Target {
    address: SocketAddr,
    /// Ends all connections so far.
    connections: CancellationToken,
}

impl Relay {
    pub async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub fn on(listener: TcpListener) -> Self {
        let port = listener.local_addr().unwrap().port();
        // Nothing listens there.
        let target = Arc::new(Mutex::new(Target {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            connections: CancellationToken::new(),
        }));
        let shared = target.clone();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let (address, connections) = {
                    let target = shared.lock();
                    (target.address, target.connections.clone())
                };
                let connection = async move {
                    // If nothing listens there, the connection is closed.
                    if let Ok(mut there) = TcpStream::connect(address).await {
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut there).await;
                    }
                };
                tokio::spawn(async move { connections.run_until_cancelled(connection).await });
            }
        });
        Self { port, target }
    }

    pub fn lead_to(&self, address: SocketAddr) {
        self.target.lock().address = address;
    }

    /// Closes all connections.
    pub fn hang_up(&self) {
        std::mem::take(&mut self.target.lock().connections).cancel();
    }
}
