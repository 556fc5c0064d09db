//! An HTTP client: requests with their bodies in memory, answers read whole.
//!
//! hyper's client is compiled once, here: no type of a caller is in it.

use std::error::Error;
use std::time::Duration;

use axum::body::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use crate::tls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A dead HTTP/2 connection is detected after both times.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PONG_TIMEOUT: Duration = Duration::from_secs(10);

pub type HttpError = Box<dyn Error + Send + Sync>;

/// Clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl HttpClient {
    /// Speaks HTTP/1.1, without TLS.
    pub fn plain() -> Result<Self, HttpError> {
        let config = ClientConfig::builder_with_provider(tls::provider());
        let config = config.with_safe_default_protocol_versions()?;
        let config = config.with_root_certificates(RootCertStore::empty());
        Ok(Self::http1(config.with_no_client_auth()))
    }

    /// Speaks HTTP/1.1, over TLS if the URL says https.
    pub fn http1(config: ClientConfig) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        Self::new(builder.https_or_http().enable_http1().wrap_connector(tcp()))
    }

    /// Speaks HTTP/2 with servers that do, and TLS always.
    pub fn http2(config: ClientConfig) -> Self {
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        Self::new(builder.https_only().enable_all_versions().wrap_connector(tcp()))
    }

    fn new(connector: HttpsConnector<HttpConnector>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PONG_TIMEOUT)
            .build(connector);
        Self { client }
    }

    /// Sends the request, and reads the answer. One that is longer than `max_bytes` is an error.
    /// The caller sets the time limit.
    pub fn call(
        &self,
        request: Request<Bytes>,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
        Box::pin(async move {
            let answer = self.client.request(request.map(Full::new)).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, max_bytes).collect().await?;
            Ok(Response::from_parts(head, body.to_bytes()))
        })
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{admin::Admin, health::Readiness, metrics::Metrics};

    #[tokio::test]
    async fn an_answer_longer_than_the_limit_is_an_error() {
        let local = "127.0.0.1:0".parse().unwrap();
        let admin = Admin::bind(local, Metrics::new("1.2.3"), Readiness::default())
            .await
            .unwrap();
        let uri = format!("http://{}/healthz", admin.address());
        let stop = CancellationToken::new();
        let server = tokio::spawn(admin.serve(stop.clone()));
        let client = HttpClient::plain().unwrap();
        let ask = |max_bytes| {
            let request = Request::get(&uri).body(Bytes::new()).unwrap();
            client.call(request, max_bytes)
        };

        assert_eq!(ask(3).await.unwrap().into_body(), "ok\n");
        let error = ask(2).await.unwrap_err();
        assert!(error.is::<http_body_util::LengthLimitError>(), "{error}");

        stop.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_for_tls_refuses_a_url_without_it() {
        let config = rustls::ClientConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let request = Request::get("http://127.0.0.1:1/").body(Bytes::new()).unwrap();
        let error = HttpClient::http2(config).call(request, 1).await.unwrap_err();
        let source = error.source().map(ToString::to_string).unwrap_or_default();
        assert_eq!(source, "unsupported scheme http");
    }
}
