//! Where the metrics of agents come from: this process, or addresses from a flag.

use std::string::FromUtf8Error;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, StatusCode, Uri};
use berth_kit::http_client::{HttpClient, HttpError};
use berth_kit::metrics::Metrics;
use futures::future::join_all;
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
    Call(#[from] HttpError),
    #[error("the answer is {0}")]
    Status(StatusCode),
    #[error("the answer is not text: {0}")]
    Text(#[from] FromUtf8Error),
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
            Self::At(all) => join_all(all.iter().map(scrape)).await,
        }
    }
}

async fn scrape(uri: &Uri) -> Option<String> {
    let answer = timeout(SCRAPE_TIMEOUT, text(uri)).await;
    let answer = answer.unwrap_or(Err(ScrapeError::TimedOut));
    answer
        .inspect_err(|error| debug!(%uri, %error, "cannot read the metrics of an agent"))
        .ok()
}

async fn text(uri: &Uri) -> Result<String, ScrapeError> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = uri.clone();
    let answer = HttpClient::plain()?.call(request, MAX_SCRAPE).await?;
    if !answer.status().is_success() {
        return Err(ScrapeError::Status(answer.status()));
    }
    Ok(String::from_utf8(answer.into_body().into())?)
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
