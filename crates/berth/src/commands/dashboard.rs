//! `berth dashboard`: the page of any cluster, given by a kubeconfig.

pub mod token;

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::http::Uri;
use berth_dashboard::state::About;
use berth_dashboard::{Agents, WriteToken};
use berth_kit::admin;
use berth_kit::args::CommonArgs;
use berth_kit::health::Readiness;
use berth_kit::listen;
use berth_kit::metrics::Metrics;
use berth_kit::serve::{Limits, Plain};
use berth_kit::shutdown::{Shutdown, Tasks};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Work that is under way at the signal to stop gets this long.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// A browser uses a few connections; one of them is an endless stream.
const LIMITS: Limits = Limits {
    connections: 256,
    handshake: Duration::from_secs(60),
    connection: None,
    keep_alive: true,
    http2: None,
    buffer: Limits::HEADERS,
    drain: Duration::from_secs(1),
};

/// Serve the dashboard of a cluster, on loopback
#[derive(Debug, clap::Args)]
pub struct Dashboard {
    /// Where it listens, on loopback (port 0 picks one)
    #[arg(long, env = "BERTH_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7480")]
    listen: SocketAddr,
    /// Where the metrics of an agent are, such as http://10.0.0.4:9464/metrics; repeatable. Without
    /// it the dashboard has neither latencies of ADD nor release queues
    #[arg(long, env = "BERTH_AGENT_METRICS", value_name = "URL", value_delimiter = ',')]
    agent_metrics: Vec<Uri>,
    /// The file with the token that changes need, for its owner alone; made when it is not there.
    /// Without it a token is made for this run and printed
    #[arg(long, env = "BERTH_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The values for the lines at the start.
struct Started {
    address: SocketAddr,
    /// Set if the token is in no file.
    token: Option<WriteToken>,
}

impl Dashboard {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Runtime::new().context("starting")?;
        runtime.block_on(self.start_and_wait(common))
    }

    async fn start_and_wait(self, common: &CommonArgs) -> Result<()> {
        let shutdown = Shutdown::on_signals().context("listening for signals")?;
        let Started { address, token } = self.start(common, &shutdown.tasks()).await?;
        let mut out = std::io::stdout().lock();
        // A closed stdout is no reason to stop.
        let mut lines = format!("Berth's dashboard is up. http://{address}/\n");
        if let Some(token) = token {
            lines += &format!("Changes need the token {}\n", token.expose());
        }
        drop(out.write_all(lines.as_bytes()).and_then(|()| out.flush()));
        drop(out);
        shutdown.finished(STOP_TIMEOUT).await?;
        Ok(())
    }

    async fn start(self, common: &CommonArgs, tasks: &Tasks) -> Result<Started> {
        ensure_loopback("--listen", self.listen)?;
        for url in &self.agent_metrics {
            ensure!(
                url.scheme_str() == Some("http") && url.host().is_some(),
                "--agent-metrics {url}: write it like http://10.0.0.4:9464/metrics"
            );
        }
        let agents = match self.agent_metrics.as_slice() {
            [] => Agents::Unknown,
            all => Agents::At(all.to_vec()),
        };
        let (listener, address) = listen::bind("--listen", self.listen).await?;
        let (token, token_hint, printed) = match &self.token_file {
            Some(path) => {
                let token = token::read_or_make("--token-file", path)?;
                (token, hint(path), None)
            }
            None => {
                let token = token::random();
                let hint = "berth dashboard printed it when it started".to_owned();
                (token.clone(), hint, Some(token))
            }
        };
        let client = common.cluster.client().await?;
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let readiness = Readiness::default();
        let connected = readiness.check("api-server");
        if let Some(address) = common.metrics_listen {
            let admin = admin::Admin::bind(address, metrics.clone(), readiness.clone()).await?;
            tasks.spawn("metrics", admin.serve(tasks.stopping()));
        }
        let version = client.apiserver_version().await;
        let version = version.context("asking the API server for its version")?;
        connected.ready();
        let options = berth_dashboard::Options {
            client,
            about: About::new(
                format!("Kubernetes {}", version.git_version),
                None,
                agents.are_known(),
            ),
            agents,
            token,
            token_hint,
        };
        let page = berth_dashboard::Dashboard::new(options, tasks.stopping());
        let router = page.router(admin::router(metrics, readiness));
        tasks.spawn("watches", page.run());
        tasks.spawn("listener", serve(listener, router, tasks.stopping()));
        Ok(Started {
            address,
            token: printed,
        })
    }
}

/// Where a person finds the token.
pub fn hint(path: &Path) -> String {
    format!("it is in {}", path.display())
}

/// Reading needs no password: so only loopback addresses are allowed.
pub fn ensure_loopback(flag: &str, address: SocketAddr) -> Result<()> {
    ensure!(
        address.ip().is_loopback(),
        "{flag} {address}: the dashboard asks for no password, so it listens on loopback only; \
         give 127.0.0.1:{}",
        address.port()
    );
    Ok(())
}

pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    LIMITS.serve(Plain { listener, router }, stop).await;
    Ok(())
}
