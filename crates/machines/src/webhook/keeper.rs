//! The shell: keeps the Secret, the listener's certificate and the configuration in step.

use std::time::Duration;

use berth_api::names::NAMESPACE;
use berth_kit::api_error::{is_conflict, is_not_found};
use berth_kit::tls::ServerTls;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tracing::{info, warn};

use super::certificates::{Certificates, Step, step};
use super::configuration::{Endpoint, configuration};
use super::secret::{from_secret, to_secret};
use super::{NAME, SECRET, WebhookError};

const FIELD_MANAGER: &str = "berth-webhook";
const INTERVAL: Duration = Duration::from_secs(10);
/// Other processes may make the certificates at the same time: then theirs are used.
const MAX_TRIES: usize = 5;

pub struct Keeper {
    client: Client,
    endpoint: Endpoint,
    is_gated: bool,
    tls: ServerTls,
    shown: Certificates,
    authorities: watch::Sender<String>,
}

impl Keeper {
    pub async fn open(
        client: Client,
        endpoint: Endpoint,
        is_gated: bool,
    ) -> Result<Self, WebhookError> {
        let shown = current(&client, &endpoint).await?;
        let tls = ServerTls::from_pem(&shown.certificate, &shown.key)?;
        Ok(Self {
            client,
            endpoint,
            is_gated,
            tls,
            authorities: watch::Sender::new(shown.authorities.clone()),
            shown,
        })
    }

    pub fn tls(&self) -> ServerTls {
        self.tls.clone()
    }

    pub fn authorities(&self) -> watch::Receiver<String> {
        self.authorities.subscribe()
    }

    /// Checks all the time, to find what somebody deletes or another process renews.
    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.sync().await {
                warn!(%error, "cannot sync the webhook's certificates; retrying");
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn sync(&mut self) -> Result<(), WebhookError> {
        let next = current(&self.client, &self.endpoint).await?;
        // API servers must trust the authority before they are shown its certificate.
        if self.is_gated {
            self.publish(&next.authorities).await?;
        }
        self.authorities.send_if_modified(|known| {
            let changed = *known != next.authorities;
            known.clone_from(&next.authorities);
            changed
        });
        if next != self.shown {
            self.tls.replace(&next.certificate, &next.key)?;
            info!(names = ?next.names, "reloaded the webhook's certificates");
            self.shown = next;
        }
        Ok(())
    }

    /// Applies the configuration: without a difference, nothing is written.
    async fn publish(&self, authorities: &str) -> Result<(), WebhookError> {
        let api = Api::<MutatingWebhookConfiguration>::all(self.client.clone());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let wanted = configuration(&self.endpoint, authorities);
        api.patch(NAME, &params, &Patch::Apply(&wanted)).await?;
        Ok(())
    }
}

/// What the Secret has, after it was made or renewed if need be.
async fn current(client: &Client, endpoint: &Endpoint) -> Result<Certificates, WebhookError> {
    let api = Api::<Secret>::namespaced(client.clone(), NAMESPACE);
    let names = endpoint.names();
    for _ in 0..MAX_TRIES {
        let secret = api.get_opt(SECRET).await?;
        let found = secret.as_ref().and_then(from_secret);
        // A certificate that a server can't show counts as none.
        let usable =
            |found: &Certificates| ServerTls::from_pem(&found.certificate, &found.key).is_ok();
        let found = found.filter(usable);
        let now = Timestamp::now();
        let next = match (step(found.as_ref(), &names, now), found) {
            (Step::Keep, Some(found)) => return Ok(found),
            (Step::AddAuthority, Some(mut found)) => {
                found.add_authority(now)?;
                found
            }
            (Step::Sign, Some(mut found)) => {
                found.sign(&names, now)?;
                found
            }
            (_, _) => Certificates::make(&names, now)?,
        };
        let wanted = to_secret(&next, secret.as_ref());
        let written = match secret {
            None => api.create(&PostParams::default(), &wanted).await,
            Some(_) => api.replace(SECRET, &PostParams::default(), &wanted).await,
        };
        match written {
            Ok(_) => {
                info!(names = ?next.names, "wrote new certificates of the webhook to its Secret");
                return Ok(next);
            }
            Err(error) if is_conflict(&error) || is_not_found(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(WebhookError::Contended)
}
