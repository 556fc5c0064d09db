//! The calls that a store makes. The client is cheap to clone, and reconnects by itself.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::wire::{
    RangeRequest, RangeResponse, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest,
    WatchResponse,
};

/// For endpoints with `https`. All in PEM.
#[derive(Clone)]
pub struct EtcdTls {
    /// Whose signature etcd's certificate must have.
    pub ca: String,
    /// Certificate and key that we show.
    pub identity: Option<(String, String)>,
}

impl std::fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the key.
        f.debug_struct("EtcdTls").finish_non_exhaustive()
    }
}

/// An answer that takes longer is not waited for: what it would have said is not known.
const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection that died without a word is noticed after both, so that no watch listens to it for
/// ever.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(5);

/// Why an endpoint can't be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("there is no endpoint: name at least one, like http://127.0.0.1:2379")]
    None,
    #[error("endpoint {endpoint}: {why}; write it like https://10.0.0.1:2379")]
    Url {
        endpoint: String,
        why: tonic::transport::Error,
    },
    #[error("endpoint {endpoint} is https: name the CA that signed its certificate")]
    NoCa { endpoint: String },
    #[error("endpoint {endpoint}: CA, certificate or key can't be used: {why}; they must be PEM")]
    Tls {
        endpoint: String,
        why: tonic::transport::Error,
    },
}

#[derive(Clone, Debug)]
pub struct Client {
    grpc: Grpc<Channel>,
    endpoints: Arc<[Endpoint]>,
}

impl Client {
    /// Connects when it is first used.
    pub fn new(endpoints: &[String], tls: Option<&EtcdTls>) -> Result<Self, EndpointError> {
        let endpoints: Result<Vec<Endpoint>, EndpointError> =
            endpoints.iter().map(|endpoint| prepare(endpoint, tls)).collect();
        let endpoints = endpoints?;
        if endpoints.is_empty() {
            return Err(EndpointError::None);
        }
        Ok(Self {
            grpc: connect(&endpoints),
            endpoints: endpoints.into(),
        })
    }

    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.ask("/etcdserverpb.KV/Range", request).await
    }

    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.ask("/etcdserverpb.KV/Txn", request).await
    }

    /// The first message says that the watch is there; all that happens from then on comes after
    /// it. On a connection of its own: what is not read of a watch yet would else hold up the
    /// answers to writes, for which its reader may be waiting.
    pub async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let request = WatchRequest {
            create_request: Some(create),
        };
        let mut grpc = connect(&self.endpoints);
        let line = grpc.clone();
        // The watch ends when we have nothing more to say: so we never end, and hold the line
        // meanwhile.
        let silence = stream::pending().inspect(move |_| drop(line.clone()));
        let requests = stream::once(async { request }).chain(silence);
        let opening = async {
            ready(&mut grpc).await?;
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            let answer = grpc.streaming(Request::new(requests), path, ProstCodec::default());
            let mut responses: Streaming<WatchResponse> = answer.await?.into_inner();
            match responses.message().await? {
                Some(first) if first.created && !first.canceled => Ok(responses),
                _ => Err(Status::unavailable("etcd refused the watch")),
            }
        };
        within(opening).await
    }

    async fn ask<Q, A>(&self, method: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc.clone();
        let asking = async {
            ready(&mut grpc).await?;
            let path = PathAndQuery::from_static(method);
            let answer = grpc.unary(Request::new(request), path, ProstCodec::default());
            Ok(answer.await?.into_inner())
        };
        within(asking).await
    }
}

fn connect(endpoints: &[Endpoint]) -> Grpc<Channel> {
    let channel = Channel::balance_list(endpoints.iter().cloned());
    // A page of large blocks is more than the default allows.
    Grpc::new(channel).max_decoding_message_size(usize::MAX)
}

fn prepare(url: &str, tls: Option<&EtcdTls>) -> Result<Endpoint, EndpointError> {
    let endpoint = || url.to_owned();
    let prepared = Endpoint::from_shared(url.to_owned()).map_err(|why| EndpointError::Url {
        endpoint: endpoint(),
        why,
    })?;
    let prepared = prepared
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .keep_alive_while_idle(true);
    if prepared.uri().scheme_str() != Some("https") {
        return Ok(prepared);
    }
    let tls = tls.ok_or_else(|| EndpointError::NoCa { endpoint: endpoint() })?;
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    prepared.tls_config(config).map_err(|why| EndpointError::Tls {
        endpoint: endpoint(),
        why,
    })
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))
}

async fn within<T>(asking: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = |_| Status::deadline_exceeded("etcd does not answer");
    tokio::time::timeout(TIMEOUT, asking).await.map_err(late)?
}
