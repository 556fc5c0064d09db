//! `berth scheduler`: the extender of kube-scheduler.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_kit::admin::{self, Admin};
use berth_kit::args::CommonArgs;
use berth_kit::health::Readiness;
use berth_kit::lease::{ElectionMetrics, LeaderElection};
use berth_kit::listen;
use berth_kit::metrics::Metrics;
use berth_kit::queue::QueueMetrics;
use berth_kit::serve::{Limits, Plain, Tls};
use berth_kit::shutdown::{Shutdown, Tasks};
use berth_kit::tls::{ServerFiles, ServerTls};
use berth_scheduler::{LEASE, Options, SchedulerMetrics};
use tracing::info;

use super::count::CountArgs;
use super::hostname;

/// Work that is under way at the signal to stop gets this long.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// kube-scheduler keeps a few connections.
const LIMITS: Limits = Limits {
    connections: 1024,
    handshake: Duration::from_secs(60),
    connection: None,
    keep_alive: true,
    http2: Some(256),
    buffer: Limits::HEADERS,
    drain: Duration::from_secs(4),
};

/// Run the extender of kube-scheduler: no pod goes to a node without an IP for it
#[derive(Debug, clap::Args)]
pub struct Scheduler {
    /// Where kube-scheduler reaches it (port 0 picks one); beyond loopback only with --tls-cert
    #[arg(long, env = "BERTH_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:10361")]
    listen: SocketAddr,
    /// Certificate to serve with, PEM; it is read again when it changes
    #[arg(long, env = "BERTH_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of --tls-cert, PEM
    #[arg(long, env = "BERTH_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// CA that signs the certificate of whoever may call, PEM; without it everybody who reaches it
    /// may
    #[arg(long, env = "BERTH_CLIENT_CA", value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    #[command(flatten)]
    count: CountArgs,
    /// Serve only while this process holds the Lease berth-scheduler; without it, run one process
    #[arg(long, env = "BERTH_LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    leader_elect: bool,
}

impl Scheduler {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Runtime::new().context("starting")?;
        runtime.block_on(self.start_and_wait(common))
    }

    async fn start_and_wait(self, common: &CommonArgs) -> Result<()> {
        let shutdown = Shutdown::on_signals().context("listening for signals")?;
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        let address = self.start(common, &shutdown.tasks()).await?;
        let mut out = std::io::stdout().lock();
        // A closed stdout is no reason to stop.
        drop(
            writeln!(out, "Berth's scheduler extender is up. {scheme}://{address}")
                .and_then(|()| out.flush()),
        );
        drop(out);
        shutdown.finished(STOP_TIMEOUT).await?;
        Ok(())
    }

    async fn start(self, common: &CommonArgs, tasks: &Tasks) -> Result<SocketAddr> {
        ensure!(
            self.tls_cert.is_some() || self.listen.ip().is_loopback(),
            "--listen {}: whoever reaches it could bind pods: give --tls-cert and \
             --tls-key, or listen on 127.0.0.1:{}",
            self.listen,
            self.listen.port()
        );
        let files = self.tls_cert.zip(self.tls_key);
        let tls = files.map(|(certificate, key)| {
            ServerTls::load(ServerFiles {
                certificate,
                key,
                client_ca: self.client_ca,
            })
        });
        let tls = tls.transpose().context("--tls-cert, --tls-key and --client-ca")?;
        let (listener, address) = listen::bind("--listen", self.listen).await?;
        let client = common.cluster.client().await?;
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let readiness = Readiness::default();
        if let Some(address) = common.metrics_listen {
            let admin = Admin::bind(address, metrics.clone(), readiness.clone()).await?;
            tasks.spawn("metrics", admin.serve(tasks.stopping()));
        }
        let election = self.leader_elect.then(|| {
            let identity =
                format!("{}_{:016x}", hostname().unwrap_or_default(), rand::random::<u64>());
            let election =
                LeaderElection::new(client.clone(), berth_api::names::NAMESPACE, LEASE, identity);
            election.with_metrics(&metrics.register(ElectionMetrics::register))
        });
        let scheduler = berth_scheduler::Scheduler::new(Options {
            client,
            settings: self.count.settings(),
            election,
            ready: readiness.check("extender"),
            queues: metrics.share(QueueMetrics::register),
            metrics: metrics.share(SchedulerMetrics::register),
        });
        // Health is on the same port as the verbs: a Service sends kube-scheduler to the replica
        // that is ready.
        let router = scheduler.router().merge(admin::router(metrics, readiness));
        let stopping = tasks.stopping();
        tasks.spawn("extender", async move {
            scheduler.run(stopping).await;
            anyhow::Ok(())
        });
        let stopping = tasks.stopping();
        match tls {
            None => {
                let door = Plain { listener, router };
                tasks.spawn("listener", async move {
                    LIMITS.serve(door, stopping).await;
                    anyhow::Ok(())
                });
            }
            Some(tls) => {
                let (reloading, reload_stop) = (tls.clone(), stopping.clone());
                tasks.spawn("certificate", async move {
                    reloading.reload(reload_stop).await;
                    anyhow::Ok(())
                });
                let door = Tls {
                    listener,
                    tls,
                    router: Box::new(move |_| router.clone()),
                    refused: Box::new(|| {}),
                };
                tasks.spawn("listener", async move {
                    LIMITS.serve(door, stopping).await;
                    anyhow::Ok(())
                });
            }
        }
        info!(%address, "scheduler extender started");
        Ok(address)
    }
}
