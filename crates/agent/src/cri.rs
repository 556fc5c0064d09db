//! What the container runtime says of the node's sandboxes. It is one of the two observers that an
//! owner is gone. It also says which sandbox has which address when the journal can't. `runtime.v1`
//! of the CRI, over the runtime's Unix socket.

mod info;
mod wire;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_api::cni::PodRef;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use wire::{
    ListPodSandboxRequest, ListPodSandboxResponse, NetworkStatus, PodSandbox,
    PodSandboxStatusRequest, PodSandboxStatusResponse,
};

/// A runtime that is busy starting a node's pods answers late, and a waiting pass holds up nothing
/// else.
const TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// What a kubelet calls the interface of every pod.
pub const INTERFACE: &str = "eth0";
/// What a kubelet allows: a sandbox is listed with all its annotations.
const MAX_BYTES: usize = 16 << 20;

/// A pod's sandbox, by whose id plugins are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub id: String,
    /// False once the sandbox was stopped. It stays in the list until it is removed.
    pub ready: bool,
    pub pod: PodRef,
    pub created: SystemTime,
}

#[derive(Debug, thiserror::Error)]
pub enum CriError {
    #[error(
        "the container runtime at {socket} can't be reached: {why}; check --cri-socket, \
         and that the runtime runs"
    )]
    Unreachable { socket: String, why: String },
    #[error("the container runtime at {socket} does not answer within {TIMEOUT:?}")]
    Late { socket: String },
    #[error(
        "the container runtime at {socket} refuses {method}: {why}; it must speak \
         runtime.v1 of the CRI"
    )]
    Refused {
        socket: String,
        method: &'static str,
        why: String,
    },
    /// An error, because an address that is left out could be given to another pod.
    #[error(
        "the container runtime at {socket} says that sandbox {sandbox} has the address \
         {address:?}, which is not an IP address"
    )]
    Address {
        socket: String,
        sandbox: String,
        address: String,
    },
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cri {
    socket: Arc<Path>,
    grpc: Grpc<Channel>,
}

impl Cri {
    /// Connects when it is first used, and again when the runtime was started again. Needs a
    /// runtime of tokio around it.
    pub fn connect(socket: impl Into<PathBuf>) -> Self {
        let socket: Arc<Path> = socket.into().into();
        let path = Arc::clone(&socket);
        // gRPC needs a host name, and this is the usual one for a Unix socket.
        let endpoint = Endpoint::from_static("http://localhost").connect_timeout(CONNECT_TIMEOUT);
        let channel = endpoint.connect_with_connector_lazy(service_fn(move |_| {
            let path = Arc::clone(&path);
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }));
        Self {
            socket,
            grpc: Grpc::new(channel).max_decoding_message_size(MAX_BYTES),
        }
    }

    /// All sandboxes, also those that are stopped and not removed yet.
    pub fn sandboxes(&self) -> BoxFuture<'_, Result<Vec<Sandbox>, CriError>> {
        Box::pin(async move {
            let method = "ListPodSandbox";
            let answer: ListPodSandboxResponse = self.ask(method, ListPodSandboxRequest {}).await?;
            Ok(answer.items.into_iter().map(Sandbox::from).collect())
        })
    }

    /// The addresses of a sandbox with a network of its own, by interface. The CRI reports one
    /// interface only, [`INTERFACE`]; other interfaces appear if the runtime reports them in
    /// addition. There are none for a sandbox on the host's network, a stopped one, or one that no
    /// longer exists.
    pub fn addresses<'a>(
        &'a self,
        sandbox: &'a str,
    ) -> BoxFuture<'a, Result<BTreeMap<String, Vec<IpAddr>>, CriError>> {
        Box::pin(async move {
            let request = PodSandboxStatusRequest {
                pod_sandbox_id: sandbox.to_owned(),
                verbose: true,
            };
            let method = "PodSandboxStatus";
            let answer: PodSandboxStatusResponse = match self.call(method, request).await {
                Err(Failed::Status(status)) if status.code() == Code::NotFound => {
                    return Ok(BTreeMap::new());
                }
                answer => answer.map_err(|failed| self.error(method, failed))?,
            };
            let network = answer.status.and_then(|status| status.network).unwrap_or_default();
            let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
            let usual: Vec<String> = every_address(network).collect();
            // A stopped sandbox has no address, even if its runtime still lists other interfaces.
            if usual.is_empty() {
                return Ok(BTreeMap::new());
            }
            for (interface, addresses) in info::interfaces(&answer.info) {
                let others = addresses.into_iter().filter(|address| !usual.contains(address));
                texts.entry(interface).or_default().extend(others);
            }
            texts.entry(INTERFACE.to_owned()).or_default().extend(usual);
            let parse = |text: String| {
                text.parse().map_err(|_| CriError::Address {
                    socket: self.socket(),
                    sandbox: sandbox.to_owned(),
                    address: text,
                })
            };
            let parse_all = |(interface, texts): (String, Vec<String>)| {
                let addresses = texts.into_iter().map(parse).collect::<Result<_, _>>()?;
                Ok((interface, addresses))
            };
            let texts = texts.into_iter().filter(|(_, texts)| !texts.is_empty());
            texts.map(parse_all).collect()
        })
    }

    async fn ask<Q, A>(&self, method: &'static str, request: Q) -> Result<A, CriError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let asked = self.call(method, request).await;
        asked.map_err(|failed| self.error(method, failed))
    }

    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, Failed>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc.clone();
        let asking = async {
            grpc.ready()
                .await
                .map_err(|error| Failed::Unreachable(reasons(&error)))?;
            let path = PathAndQuery::try_from(format!("/runtime.v1.RuntimeService/{method}"));
            let path = path.map_err(|error| Failed::Unreachable(error.to_string()))?;
            let answer = grpc.unary(Request::new(request), path, ProstCodec::default()).await;
            answer.map(tonic::Response::into_inner).map_err(Failed::Status)
        };
        tokio::time::timeout(TIMEOUT, asking).await.unwrap_or(Err(Failed::Late))
    }

    fn error(&self, method: &'static str, failed: Failed) -> CriError {
        let socket = self.socket();
        match failed {
            Failed::Late => CriError::Late { socket },
            Failed::Unreachable(why) => CriError::Unreachable { socket, why },
            Failed::Status(status) if status.code() == Code::Unavailable => {
                let why = reasons(&status);
                CriError::Unreachable { socket, why }
            }
            Failed::Status(status) => {
                let why = format!("{}: {}", status.code(), status.message());
                CriError::Refused { socket, method, why }
            }
        }
    }

    fn socket(&self) -> String {
        self.socket.display().to_string()
    }
}

enum Failed {
    Late,
    Unreachable(String),
    Status(Status),
}

/// The innermost error names the cause; the outer ones only say that there was no connection.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The CRI has a field for the first address, which may be empty, and a list for the others.
fn every_address(network: NetworkStatus) -> impl Iterator<Item = String> {
    let others = network.additional_ips.into_iter().map(|additional| additional.ip);
    std::iter::once(network.ip).chain(others).filter(|ip| !ip.is_empty())
}

impl From<PodSandbox> for Sandbox {
    fn from(sandbox: PodSandbox) -> Self {
        let metadata = sandbox.metadata.unwrap_or_default();
        let since_epoch =
            Duration::from_nanos(u64::try_from(sandbox.created_at).unwrap_or_default());
        Self {
            id: sandbox.id,
            ready: sandbox.state == wire::READY,
            pod: PodRef {
                namespace: metadata.namespace,
                name: metadata.name,
                uid: metadata.uid,
            },
            created: SystemTime::UNIX_EPOCH + since_epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_runtime_that_is_away_is_named_with_its_socket_and_the_flag() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("none.sock");
        let cri = Cri::connect(&socket);
        for error in [
            cri.sandboxes().await.unwrap_err(),
            cri.addresses("a").await.unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(
                error.contains(&socket.display().to_string()) && error.contains("--cri-socket"),
                "{error}"
            );
            assert!(error.contains("No such file"), "{error}");
        }
    }

    #[test]
    fn the_first_address_and_the_others_are_one_list() {
        let ip = |ip: &str| wire::PodIp { ip: ip.to_owned() };
        let network = NetworkStatus {
            ip: "10.64.0.5".to_owned(),
            additional_ips: vec![ip("fd64::5"), ip("")],
        };
        let all: Vec<String> = every_address(network).collect();
        assert_eq!(all, ["10.64.0.5", "fd64::5"]);
        assert_eq!(every_address(NetworkStatus::default()).count(), 0);
    }
}
