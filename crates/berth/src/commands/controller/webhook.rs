//! The flags of the gate's webhook.

use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_kit::listen;
use berth_kit::metrics::Metrics;
use berth_kit::shutdown::Tasks;
use berth_machines::metrics::GateMetrics;
use berth_machines::webhook::{self, Endpoint, Options, Webhook};
use berth_machines::{CLUSTER, MACHINE};
use kube::Client;

use super::machines::Machines;

#[derive(Debug, clap::Args)]
pub struct WebhookArgs {
    /// For the controllers machine and cluster: where to serve the gate as a webhook, for API
    /// servers before 1.36 [default: not served]
    #[arg(long, env = "BERTH_WEBHOOK_LISTEN", value_name = "ADDR")]
    webhook_listen: Option<SocketAddr>,
    /// How API servers reach --webhook-listen, like https://berth.example:9443
    #[arg(long, env = "BERTH_WEBHOOK_URL", value_name = "URL")]
    webhook_url: Option<String>,
    /// The Service in front of --webhook-listen, as NAMESPACE/NAME or NAMESPACE/NAME:PORT, where
    /// the API server is this cluster's own
    #[arg(long, env = "BERTH_WEBHOOK_SERVICE", value_name = "SERVICE")]
    webhook_service: Option<String>,
}

/// The choice that the flags make. Nothing listens yet.
#[derive(Debug)]
pub struct WebhookChoice {
    listen: SocketAddr,
    endpoint: Endpoint,
    is_gated: bool,
}

impl WebhookArgs {
    pub fn choose(self, machines: &Machines) -> Result<Option<WebhookChoice>> {
        let Some(listen) = self.webhook_listen else {
            ensure!(
                self.webhook_url.is_none() && self.webhook_service.is_none(),
                "--webhook-url and --webhook-service say how --webhook-listen is reached: give \
                 --webhook-listen, or leave them out"
            );
            return Ok(None);
        };
        ensure!(
            machines.has(MACHINE) || machines.has(CLUSTER),
            "--webhook-listen: it is for the controllers machine and cluster: add one to \
             --controllers, or leave it out"
        );
        let endpoint = match (self.webhook_url, self.webhook_service) {
            (Some(url), None) => {
                Endpoint::url(&url).map_err(|error| anyhow!("--webhook-url: {error}"))?
            }
            (None, Some(service)) => {
                ensure!(
                    !machines.has(CLUSTER),
                    "--webhook-service {service}: the API servers of user clusters can't reach \
                     it: give --webhook-url"
                );
                Endpoint::service(&service)
                    .map_err(|error| anyhow!("--webhook-service: {error}"))?
            }
            (None, None) => bail!(
                "--webhook-listen: how do API servers reach it? Give --webhook-url, or \
                 --webhook-service for this cluster's own"
            ),
            (Some(_), Some(_)) => {
                bail!("--webhook-url and --webhook-service: leave out one of the two")
            }
        };
        Ok(Some(WebhookChoice {
            listen,
            endpoint,
            is_gated: machines.has(MACHINE),
        }))
    }
}

impl WebhookChoice {
    /// Also on replicas that do not lead: API servers may call any of them.
    pub async fn start(self, client: Client, metrics: &Metrics, tasks: &Tasks) -> Result<Webhook> {
        let (listener, address) = listen::bind("--webhook-listen", self.listen).await?;
        tracing::info!(%address, endpoint = %self.endpoint, "serving the gate's webhook");
        let options = Options {
            client,
            endpoint: self.endpoint,
            listener,
            is_gated: self.is_gated,
            metrics: metrics.register(GateMetrics::register),
            stop: tasks.stopping(),
        };
        let (webhook, serving) = webhook::start(options).await.context("--webhook-listen")?;
        tasks.spawn("webhook", async move {
            serving.await;
            anyhow::Ok(())
        });
        Ok(webhook)
    }
}
