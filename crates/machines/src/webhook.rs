//! The gate as a mutating webhook, for API servers before 1.36, which have no
//! MutatingAdmissionPolicy.
//!
//! Every process of `berth controller` that is configured to serves it, leader or not. It makes its
//! own certificates: they are in a Secret, so that all processes show the same, and are renewed
//! long before they expire. While nobody serves it, the API server refuses new Machines, so none is
//! created without the gate.

mod certificates;
mod configuration;
mod keeper;
mod review;
mod router;
mod secret;

use std::fmt;

use berth_kit::serve::{Limits, Tls};
use berth_kit::tls::CertificateError;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use configuration::{Endpoint, EndpointError, configuration};
use keeper::Keeper;

use crate::metrics::GateMetrics;

/// The Secret of the certificates, in kube-system.
pub const SECRET: &str = "berth-webhook";

/// The configuration's name in the cluster that has Machines.
pub const NAME: &str = "berth-machine-gate";

/// API servers keep their connections.
const LIMITS: Limits = Limits {
    connections: 256,
    handshake: std::time::Duration::from_secs(10),
    connection: None,
    keep_alive: true,
    http2: Some(256),
    buffer: Limits::HEADERS,
    drain: std::time::Duration::from_secs(4),
};

/// A retry finds whatever was half written.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("API server: {0}")]
    Api(#[source] Box<kube::Error>),
    #[error("making a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("Secret kube-system/{SECRET}: others changed it during each attempt")]
    Contended,
}

impl From<kube::Error> for WebhookError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

pub struct Options {
    /// A client of the cluster that has the Secret.
    pub client: Client,
    pub endpoint: Endpoint,
    pub listener: TcpListener,
    /// Whether this cluster itself has Machines to gate. The cluster controller handles user
    /// clusters.
    pub is_gated: bool,
    pub metrics: GateMetrics,
    pub stop: CancellationToken,
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = out.debug_struct("Options");
        fields.field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// How an API server calls the webhook, for code that configures one.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub endpoint: Endpoint,
    /// The authorities that the API server is to trust, PEM.
    pub authorities: watch::Receiver<String>,
}

impl Webhook {
    /// The configuration for a cluster that has Machines.
    pub fn configuration(&self) -> serde_json::Value {
        configuration(&self.endpoint, &self.authorities.borrow())
    }
}

/// Returns when the certificates are there; serves and renews them until `stop`.
pub async fn start(
    options: Options,
) -> Result<(Webhook, impl Future<Output = ()> + Send + 'static), WebhookError> {
    let Options {
        client,
        endpoint,
        listener,
        is_gated,
        metrics,
        stop,
    } = options;
    let keeper = Keeper::open(client, endpoint.clone(), is_gated).await?;
    let webhook = Webhook {
        endpoint,
        authorities: keeper.authorities(),
    };
    let router = router::router(metrics);
    let door = Tls {
        listener,
        tls: keeper.tls(),
        router: Box::new(move |_| router.clone()),
        refused: Box::new(|| ()),
    };
    let serving = async move {
        let keeping = stop
            .clone()
            .run_until_cancelled_owned(async move { keeper.run().await });
        tokio::join!(LIMITS.serve(door, stop), keeping);
    };
    Ok((webhook, serving))
}
