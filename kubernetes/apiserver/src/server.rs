//! The server. Once opened, it is used in process as a `kube::Client` or over TLS, with the same
//! router.

mod connections;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use berth_apimachinery::status::Status;
use berth_kit::clock::Clock;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::admission::Admission;
use crate::http::{self, Front};
use crate::node_proxy::NodeProxy;
use crate::resources::{Identities, Resources, Writer};
use crate::store::{KEEP_EVENTS, OpenError, Store};
use crate::{garbage, housekeeping};

pub use tls::Credentials;

#[derive(Clone, Debug)]
pub struct Options {
    /// The directory for objects, CA and token. `None` keeps them in memory.
    pub data_dir: Option<PathBuf>,
    /// How many events of a kind a watch can go back.
    pub keep_events: usize,
    /// With a seed, UIDs and generated names come from it, and time from tokio's clock, so that a
    /// run can be repeated.
    pub seed: Option<u64>,
    /// Mutating admission of new objects.
    pub admission: Admission,
    /// The nodes behind `nodes/…/proxy`.
    pub node_proxy: NodeProxy,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_dir: None,
            keep_events: KEEP_EVENTS,
            seed: None,
            admission: Admission::default(),
            node_proxy: NodeProxy::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(
        "credentials in {path}: {why}; remove that directory to make new ones, and take \
         the new kubeconfig"
    )]
    Credentials { path: PathBuf, why: String },
    #[error("the first objects could not be written: {0}")]
    First(Status),
}

#[derive(Debug)]
pub struct Server {
    front: Arc<Front>,
    credentials: Credentials,
    stop: CancellationToken,
    loops: Vec<JoinHandle<()>>,
}

/// Namespaces that every cluster has.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

impl Server {
    pub fn open(options: Options) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(async move {
            let store = match &options.data_dir {
                Some(directory) => Store::open(directory, options.keep_events)?,
                None => Store::in_memory(options.keep_events),
            };
            let credentials = match &options.data_dir {
                Some(directory) => Credentials::load_or_make(&directory.join("pki"))?,
                None => Credentials::make()?,
            };
            let (clock, identities) = match options.seed {
                Some(seed) => {
                    let start = jiff::Timestamp::UNIX_EPOCH;
                    (
                        Clock::Tokio(tokio::time::Instant::now(), start),
                        Identities::seeded(seed),
                    )
                }
                None => (Clock::System, Identities::random()),
            };
            let resources = Arc::new(Resources::new(store, clock, identities, options.admission));
            let stop = CancellationToken::new();
            // The loops start before the first objects are written, so that they see these too.
            let loops = vec![
                garbage::start(resources.clone(), stop.clone()),
                housekeeping::start(resources.clone(), stop.clone()),
            ];
            first_objects(&resources).await?;
            Ok(Self {
                front: Front::new(resources, options.node_proxy, stop.clone()),
                credentials,
                stop,
                loops,
            })
        })
    }

    /// The API without a socket and without a token.
    pub fn router(&self) -> Router {
        http::router(self.front.clone())
    }

    pub fn client(&self) -> kube::Client {
        let router =
            self.router()
                .map_request(|mut request: ::http::Request<kube::client::Body>| {
                    // Writes without a field manager own their fields by this name.
                    let name = ::http::HeaderValue::from_static("berth");
                    request.headers_mut().entry(::http::header::USER_AGENT).or_insert(name);
                    request.map(axum::body::Body::new)
                });
        kube::Client::new(router, "default")
    }

    /// Serves over TLS until the server is stopped.
    pub fn serve(&self, listener: TcpListener) -> Result<JoinHandle<()>, StartError> {
        let address = listener.local_addr().ok();
        let config = self.credentials.server_config(address.map(|a| a.ip()))?;
        let router = self.router();
        let token = self.credentials.token().to_owned();
        Ok(tokio::spawn(connections::serve(
            listener,
            config,
            router,
            token,
            self.stop.clone(),
        )))
    }

    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        self.credentials.kubeconfig(address)
    }

    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Ends watches, connections and loops, and closes the store. Every answered write is already
    /// durable.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.stop.cancel();
            for task in self.loops {
                drop(task.await);
            }
            self.front.resources.store.wait_for_commits().await;
        })
    }
}

async fn first_objects(resources: &Resources) -> Result<(), StartError> {
    let Some(kind) = resources.registry.find("", "v1", "namespaces") else {
        return Err(StartError::First(Status::no_such_path()));
    };
    let writer = Writer::server();
    let missing = NAMESPACES
        .iter()
        .filter(|name| !resources.store.exists(Store::NAMESPACES, "", name))
        .map(|name| {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            resources.create(&kind, "", object, &writer)
        });
    for made in futures::future::join_all(missing).await {
        made.map_err(StartError::First)?;
    }
    Ok(())
}
