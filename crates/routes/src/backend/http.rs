//! Calls to a cloud's HTTP API.

use std::time::Duration;

use berth_kit::http_client::{HttpClient, HttpError};
use berth_kit::tls;
use bytes::Bytes;
use http::header::{HeaderMap, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use hyper_rustls::ConfigBuilderExt;
use rustls::ClientConfig;
use tokio::time::timeout;

use super::{BackendError, ErrorKind};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_ANSWER: usize = 32 << 20;

/// Clones share their connections.
#[derive(Clone, Debug)]
pub struct Http {
    client: HttpClient,
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the server wants fewer requests, and from when on it takes them again.
    pub fn throttled(&self) -> Option<ErrorKind> {
        let retry_after = self
            .headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(delay);
        match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => {
                Some(ErrorKind::Throttled { retry_after })
            }
            // A server may also report overload as 503 with `Retry-After`.
            StatusCode::SERVICE_UNAVAILABLE if retry_after.is_some() => {
                Some(ErrorKind::Throttled { retry_after })
            }
            _ => None,
        }
    }
}

/// Seconds, or a date.
fn delay(retry_after: &str) -> Option<Duration> {
    if let Ok(seconds) = retry_after.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(retry_after).ok()?.timestamp();
    let seconds = date.as_second() - jiff::Timestamp::now().as_second();
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

impl Http {
    pub fn new() -> Result<Self, BackendError> {
        let unusable = |error: &dyn std::error::Error| {
            BackendError::unavailable(format!("the machine's CA certificates: {error}"))
        };
        // Passed explicitly: the process may have another default provider.
        let config = ClientConfig::builder_with_provider(tls::provider());
        let config = config.with_safe_default_protocol_versions();
        let config = config
            .map_err(|error| unusable(&error))?
            .with_native_roots();
        let config = config
            .map_err(|error| unusable(&error))?
            .with_no_client_auth();
        Ok(Self {
            client: HttpClient::http1(config),
        })
    }

    /// `what` names the call in errors. Errors contain neither headers nor bodies: these hold
    /// credentials.
    pub async fn call(&self, what: &str, request: Request<Bytes>) -> Result<Answer, BackendError> {
        let failed = |error: HttpError| {
            let mut message = format!("{what}: {error}");
            let mut source = error.source();
            while let Some(deeper) = source {
                message = format!("{message}: {deeper}");
                source = deeper.source();
            }
            BackendError::unavailable(message)
        };
        let answer = timeout(ANSWER_TIMEOUT, self.client.call(request, MAX_ANSWER)).await;
        let late = |_| BackendError::unavailable(format!("{what}: no answer in time"));
        let (parts, body) = answer.map_err(late)?.map_err(failed)?.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }
}

/// A request with headers that the caller has made.
pub fn request(
    what: &str,
    method: Method,
    uri: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Request<Bytes>, BackendError> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.into());
    request.map_err(|error| BackendError::new(ErrorKind::Refused, format!("{what}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(delay("17"), Some(Duration::from_secs(17)));
        assert_eq!(delay("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(delay("soon"), None);
    }
}
