//! Leads kube-scheduler to the replica that is ready, as a Service does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::{TcpListener, TcpStream};

pub struct Relay {
    pub port: u16,
    to: Arc<AtomicU16>,
}

impl Relay {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = Arc::new(AtomicU16::new(0));
        let target = to.clone();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let port = target.load(Ordering::Acquire);
                tokio::spawn(async move {
                    // Whoever asks while nobody is there is hung up on.
                    if let Ok(mut there) = TcpStream::connect(("127.0.0.1", port)).await {
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut there).await;
                    }
                });
            }
        });
        Self { port, to }
    }

    pub fn lead_to(&self, port: u16) {
        self.to.store(port, Ordering::Release);
    }
}
