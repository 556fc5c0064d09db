//! Connections: TLS with the client's certificate first, then requests that carry its cluster.

use axum::{Extension, Router};
use berth_kit::serve::Tls;
use berth_kit::tls::ServerTls;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Limits;
use super::metrics::ServiceMetrics;
use super::target::Caller;
use crate::certificate::common_name;

/// What all connections share.
pub struct Connections {
    pub router: Router,
    pub tls: ServerTls,
    pub limits: Limits,
    pub metrics: ServiceMetrics,
    pub stop: CancellationToken,
}

impl Connections {
    /// Serves until it is told to stop; what is under way then gets `limits.drain`.
    pub async fn serve(self, listener: TcpListener) {
        let limits = berth_kit::serve::Limits {
            connections: self.limits.connections,
            handshake: self.limits.handshake,
            connection: None,
            keep_alive: true,
            http2: Some(256),
            buffer: berth_kit::serve::Limits::HEADERS,
            drain: self.limits.drain,
        };
        let (router, metrics) = (self.router, self.metrics);
        let door = Tls {
            listener,
            tls: self.tls.clone(),
            router: Box::new(move |certificate| {
                match certificate.and_then(|shown| common_name(shown)) {
                    Some(cluster) => {
                        let cluster = cluster.into();
                        router.clone().layer(Extension(Caller { cluster }))
                    }
                    // A certificate that is for no cluster: requests are told so.
                    None => router.clone(),
                }
            }),
            refused: Box::new(move || metrics.refuse_connection()),
        };
        // What is under way when the service stops is served to its end, whatever files change.
        let reloading = CancellationToken::new();
        let _reloading = reloading.clone().drop_guard();
        tokio::join!(
            async {
                limits.serve(door, self.stop).await;
                reloading.cancel();
            },
            self.tls.reload(reloading.clone())
        );
    }
}
