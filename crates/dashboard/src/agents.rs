//! The source of agents' metrics: this process, or addresses from a flag.

use std::time::Duration;

use axum::http::Uri;
use berth_kit::metrics::Metrics;
use futures::future::join_all;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;
use tracing::debug;

/// The time limit for one answer.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(3);
/// An agent's metrics are some 50 KiB, those of a whole `berth up` less than 1 MiB.
const MAX_SCRAPE: usize = 8 * 1024 * 1024;

/// Why an agent gave no metrics.
#[derive(Debug, thiserror::Error)]
enum ScrapeError {
    #[error("no answer within {SCRAPE_TIMEOUT:?}")]
    TimedOut,
    #[error("{0}")]
    Call(#[from] hyper_util::client::legacy::Error),
    #[error("the answer is {0}")]
    Status(hyper::StatusCode),
    #[error("reading the answer: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
}

#[derive(Clone, Debug, Default)]
pub enum Agents {
    /// No addresses are known.
    #[default]
    Unknown,
    Here(Metrics),
    /// Their `/metrics`, over HTTP.
    At(Vec<Uri>),
}

impl Agents {
    pub fn are_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// The metrics of each agent; `None` for one that does not answer.
    pub(crate) async fn scrape(&self) -> Vec<Option<String>> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Here(metrics) => vec![metrics.encode().ok()],
            Self::At(all) => {
                let client = Client::builder(TokioExecutor::new()).build_http();
                join_all(all.iter().map(|uri| scrape(&client, uri))).await
            }
        }
    }
}

async fn scrape(client: &Client<HttpConnector, Empty<Bytes>>, uri: &Uri) -> Option<String> {
    let answer = timeout(SCRAPE_TIMEOUT, text(client, uri)).await;
    let answer = answer.unwrap_or(Err(ScrapeError::TimedOut));
    answer
        .inspect_err(|error| debug!(%uri, %error, "cannot read the metrics of an agent"))
        .ok()
}

async fn text(
    client: &Client<HttpConnector, Empty<Bytes>>,
    uri: &Uri,
) -> Result<String, ScrapeError> {
    let answer = client.get(uri.clone()).await?;
    if !answer.status().is_success() {
        return Err(ScrapeError::Status(answer.status()));
    }
    let body = Limited::new(answer.into_body(), MAX_SCRAPE).collect().await;
    let body = body.map_err(ScrapeError::Body)?.to_bytes();
    String::from_utf8(body.into()).map_err(|error| ScrapeError::Body(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_does_not_answer_says_nothing_and_the_others_are_heard() {
        let metrics = Metrics::new("1.2.3");
        let bind = || {
            berth_kit::admin::Admin::bind(
                "127.0.0.1:0".parse().unwrap(),
                metrics.clone(),
                berth_kit::health::Readiness::default(),
            )
        };
        let (there, gone) = (bind().await.unwrap(), bind().await.unwrap());
        let addresses = [there.address(), gone.address()];
        drop(gone);
        let stop = tokio_util::sync::CancellationToken::new();
        let serving = tokio::spawn(there.serve(stop.clone()));
        let uri = |address| format!("http://{address}/metrics").parse().unwrap();
        let answers = Agents::At(addresses.map(uri).into()).scrape().await;
        assert!(
            answers[0]
                .as_ref()
                .is_some_and(|text| text.contains("berth_build_info"))
        );
        assert_eq!(answers[1], None);
        stop.cancel();
        serving.await.unwrap().unwrap();
    }
}
