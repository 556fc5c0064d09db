//! One call: sent, sent again when there was no answer, and read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_kit::backoff::{Backoff, Exponential};
use berth_kit::http_client::HttpClient;
use berth_kit::tls::{self, CertificateError};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode, Uri};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::debug;

use super::error::CallError;
use super::refusal;
use crate::certificate::common_name;

/// Time for an answer. The service gives up a little earlier, and says so.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(45);
/// Time for an answer to a request that waits for addresses to come free.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// About ten seconds of pauses in all. Then the caller gets the error, and can retry at its own
/// pace.
const MAX_ATTEMPTS: u32 = 9;
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(50),
    max: Duration::from_secs(2),
};

/// More than the largest container needs.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Why a service can't be called at all.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("allocator {url}: write it as https://HOST:PORT or https://HOST:PORT/networks/NETWORK")]
    Url { url: String },
    #[error("allocator {url}: {source}")]
    Certificate { url: String, source: CertificateError },
    #[error(
        "allocator {url}: certificate {}: it has no Common Name, or several: issue one whose \
         Common Name is the cluster's name",
        path.display()
    )]
    NoCluster { url: String, path: PathBuf },
}

/// Clones share their connections.
#[derive(Clone, Debug)]
pub struct Caller {
    http: HttpClient,
    /// `https://HOST:PORT`
    base: String,
    tls: Arc<ClientConfig>,
    certificate: PathBuf,
    ca: PathBuf,
    cluster: String,
}

impl Caller {
    pub fn new(
        url: &str,
        base: &str,
        ca: &Path,
        certificate: &Path,
        key: &Path,
    ) -> Result<Self, ConnectError> {
        let is_base = |uri: &Uri| {
            uri.scheme_str() == Some("https") && uri.host().is_some() && uri.path() == "/"
        };
        if !base
            .parse::<Uri>()
            .is_ok_and(|uri| is_base(&uri) && uri.query().is_none())
        {
            return Err(ConnectError::Url { url: url.to_owned() });
        }
        let unusable = |source| ConnectError::Certificate {
            url: url.to_owned(),
            source,
        };
        let (config, cluster) = config(ca, certificate, key).map_err(unusable)?;
        let cluster = cluster.ok_or_else(|| ConnectError::NoCluster {
            url: url.to_owned(),
            path: certificate.to_owned(),
        })?;
        Ok(Self {
            http: HttpClient::http2(config.clone()),
            base: base.to_owned(),
            tls: Arc::new(config),
            certificate: certificate.to_owned(),
            ca: ca.to_owned(),
            cluster,
        })
    }

    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    pub fn address(&self) -> &str {
        &self.base
    }

    /// A call whose answer has nothing in it.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(), CallError> {
        self.repeat(method, path, body, REQUEST_TIMEOUT).await.map(drop)
    }

    pub async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<T, CallError> {
        let answer = self.repeat(method, path, body, timeout).await?;
        serde_json::from_slice(&answer).map_err(|error| CallError::Unanswered {
            why: format!("its answer can't be read: {error}"),
        })
    }

    async fn repeat(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let unsent = |why: String| CallError::Unanswered { why };
        let body = body
            .map(serde_json::to_vec)
            .transpose()
            .map_err(|error| unsent(error.to_string()))?;
        let body = Bytes::from(body.unwrap_or_default());
        let uri: Uri = format!("{}{path}", self.base)
            .parse()
            .map_err(|error: http::uri::InvalidUri| unsent(error.to_string()))?;
        let mut backoff = Backoff::new(BACKOFF, StdRng::from_rng(&mut rand::rng()));
        let mut attempt = 1;
        loop {
            let mut request = Request::new(body.clone());
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            request
                .headers_mut()
                .insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
            let error = match self.once(request, timeout).await {
                Ok((status, answer)) if status.is_success() => return Ok(answer),
                Ok((status, answer)) => CallError::read(status, &answer),
                Err(closed @ CallError::Closed { .. }) => self.explained(closed, &uri).await,
                Err(error) => error,
            };
            if attempt == MAX_ATTEMPTS || !error.is_transient() {
                return Err(error);
            }
            let pause = backoff.fail();
            debug!(%error, %uri, attempt, ?pause, "call of the allocator failed; retrying");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn once(
        &self,
        request: Request<Bytes>,
        timeout: Duration,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let call = self.http.call(request, MAX_ANSWER_BYTES);
        let answer = tokio::time::timeout(timeout, call).await;
        let answer = answer.map_err(|_| CallError::Unanswered {
            why: format!("did not answer within {timeout:?}"),
        })?;
        let answer = answer.map_err(|error| self.broken(&*error))?;
        Ok((answer.status(), answer.into_body()))
    }

    async fn explained(&self, closed: CallError, uri: &Uri) -> CallError {
        let alert = refusal::read_alert(uri, Arc::clone(&self.tls)).await;
        match alert.map(|error| self.broken(&error)) {
            Some(untrusted @ CallError::Untrusted { .. }) => untrusted,
            _ => closed,
        }
    }

    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> CallError {
        CallError::of_connection(error, &self.certificate, &self.cluster, &self.ca)
    }
}

/// The TLS configuration, and the cluster that the certificate is for.
fn config(
    ca: &Path,
    certificate: &Path,
    key: &Path,
) -> Result<(ClientConfig, Option<String>), CertificateError> {
    let chain = tls::chain(certificate)?;
    let cluster = chain.first().and_then(common_name);
    let unusable = |error: rustls::Error| CertificateError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        why: error.to_string(),
    };
    let config = ClientConfig::builder_with_provider(tls::provider());
    let config = config.with_safe_default_protocol_versions().map_err(unusable)?;
    let config = config.with_root_certificates(tls::authorities(ca)?);
    let config = config.with_client_auth_cert(chain, tls::key(key)?).map_err(unusable)?;
    Ok((config, cluster))
}
