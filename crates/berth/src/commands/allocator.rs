//! `berth allocator`: the allocator as a service, for several clusters on one address plan.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use berth_kit::admin::Admin;
use berth_kit::args::CommonArgs;
use berth_kit::health::Readiness;
use berth_kit::listen;
use berth_kit::metrics::Metrics;
use berth_kit::shutdown::{Shutdown, Tasks};
use berth_kit::tls::{ServerFiles, ServerTls};
use berth_ledger::store::EtcdDocument;
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::service::{Limits, PlanDocument, PlanFile, PlanStore, Service, plan};
use tracing::info;

use super::store::{ETCD_PREFIX, EtcdArgs, StoreChoice};

/// Longer than requests under way get: the service itself ends those.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// Run the allocator as a service: addresses for the nodes of several clusters
#[derive(Debug, clap::Args)]
pub struct Allocator {
    /// Where to listen, over TLS with client certificates (port 0 picks one)
    #[arg(long, env = "BERTH_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7445")]
    listen: SocketAddr,
    /// Where the ledger is kept: redb=PATH or etcd=URL[,URL]
    #[arg(long, env = "BERTH_STORE")]
    store: StoreChoice,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Certificate of this service, PEM
    #[arg(long, env = "BERTH_TLS_CERT", value_name = "FILE")]
    tls_cert: PathBuf,
    /// Key of --tls-cert, PEM
    #[arg(long, env = "BERTH_TLS_KEY", value_name = "FILE")]
    tls_key: PathBuf,
    /// CA that signs the certificates of clusters, PEM; the Common Name of each is the cluster that
    /// it is for
    #[arg(long, env = "BERTH_CLIENT_CA", value_name = "FILE")]
    client_ca: PathBuf,
}

impl Allocator {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Runtime::new().context("starting")?;
        runtime.block_on(self.start_and_wait(common))
    }

    async fn start_and_wait(self, common: &CommonArgs) -> Result<()> {
        let shutdown = Shutdown::on_signals().context("listening for signals")?;
        let address = self.start(common, &shutdown.tasks()).await?;
        let mut out = std::io::stdout().lock();
        // A closed stdout is no reason to stop.
        drop(
            writeln!(out, "Berth's allocator is up. https://{address}").and_then(|()| out.flush()),
        );
        drop(out);
        shutdown.finished(STOP_TIMEOUT).await?;
        Ok(())
    }

    /// Checks the flags first, then opens the store.
    async fn start(self, common: &CommonArgs, tasks: &Tasks) -> Result<SocketAddr> {
        let tls = ServerTls::load(ServerFiles {
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            client_ca: Some(self.client_ca.clone()),
        });
        let tls = tls.context("--tls-cert, --tls-key and --client-ca")?;
        let plan = self.plan()?;
        let (listener, address) = listen::bind("--listen", self.listen).await?;
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let readiness = Readiness::default();
        let ready = readiness.check("store");
        if let Some(address) = common.metrics_listen {
            let admin = Admin::bind(address, metrics.clone(), readiness).await?;
            tasks.spawn("metrics", admin.serve(tasks.stopping()));
        }
        let store = self.store.open(&self.etcd, None).await?;
        let ledger = Ledger::new(store, Clock::system(), metrics.register(LedgerMetrics::register));
        let service = Service::open(ledger, plan, &metrics, Limits::default(), tasks.stopping());
        let service = service.await.context("--store")?;
        tasks.spawn("allocator", async move {
            service.serve(listener, tls).await;
            anyhow::Ok(())
        });
        ready.ready();
        info!(%address, store = %self.store, "allocator started");
        Ok(address)
    }

    /// The plan is stored beside the blocks.
    fn plan(&self) -> Result<Arc<dyn PlanStore>> {
        Ok(match &self.store {
            StoreChoice::Redb(path) => Arc::new(PlanFile::beside(path)),
            StoreChoice::Etcd(urls) => {
                let tls = self.etcd.tls()?;
                let document = EtcdDocument::new(urls, ETCD_PREFIX, plan::etcd::NAME, tls.as_ref());
                Arc::new(PlanDocument::new(document.context("--store")?))
            }
            StoreChoice::Kubernetes => {
                bail!(
                    "--store kubernetes: the allocator belongs to no cluster: use \
                     redb=PATH or etcd=URL[,URL]"
                )
            }
        })
    }
}
