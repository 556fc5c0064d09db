//! The members of an etcd, and the one that is asked. A member that does not answer, or says that
//! it can't, is replaced by the next: one that is killed, paused or cut off costs one attempt.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tracing::{info, warn};

use super::tls::EtcdTls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection that died silently is noticed after both, so that no watch waits on it for ever.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(5);
/// The shortest time between two reads of the certificate files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

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

#[derive(Debug)]
pub struct Members {
    urls: Vec<String>,
    /// The number of the member that is asked.
    current: AtomicUsize,
    connections: RwLock<Connections>,
}

#[derive(Debug)]
struct Connections {
    tls: Option<EtcdTls>,
    looked: Instant,
    members: Vec<(Endpoint, Grpc<Channel>)>,
}

/// The member that is asked now.
#[derive(Debug)]
pub struct Member {
    pub number: usize,
    pub endpoint: Endpoint,
    pub grpc: Grpc<Channel>,
}

impl Members {
    /// A member is connected when it is first asked.
    pub fn new(urls: &[String], tls: Option<&EtcdTls>) -> Result<Self, EndpointError> {
        if urls.is_empty() {
            return Err(EndpointError::None);
        }
        Ok(Self {
            urls: urls.to_vec(),
            current: AtomicUsize::new(0),
            connections: RwLock::new(Connections {
                tls: tls.cloned(),
                looked: Instant::now(),
                members: connections(urls, tls)?,
            }),
        })
    }

    pub fn count(&self) -> usize {
        self.urls.len()
    }

    pub fn current(&self) -> Option<Member> {
        self.reload();
        let number = self.current.load(Ordering::Relaxed);
        let connections = self.connections.read();
        let (endpoint, grpc) = connections.members.get(number)?.clone();
        Some(Member {
            number,
            endpoint,
            grpc,
        })
    }

    /// Makes the next member current, unless another caller has already done so. For a member that
    /// is of no use for now.
    pub fn switch_from(&self, number: usize) {
        let next = (number + 1) % self.count();
        let (from, to) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.current.compare_exchange(number, next, from, to);
    }

    /// Reads the certificate files again. Files that can't be used are reported and the old content
    /// stays: the certificate and its key may be written one after the other.
    fn reload(&self) {
        if self.connections.read().looked.elapsed() < RELOAD_INTERVAL {
            return;
        }
        let mut connections = self.connections.write();
        connections.looked = Instant::now();
        let Some(read) = connections.tls.as_ref().and_then(EtcdTls::read_again) else {
            return;
        };
        let tls = match read {
            Ok(tls) => tls,
            Err(error) => {
                warn!(%error, "cannot read a TLS file for etcd; keeping the old ones");
                return;
            }
        };
        if connections.tls.as_ref() == Some(&tls) {
            return;
        }
        match self::connections(&self.urls, Some(&tls)) {
            Ok(members) => {
                info!("TLS files for etcd changed; reloaded them");
                connections.members = members;
                connections.tls = Some(tls);
            }
            Err(error) => {
                warn!(%error, "cannot use the changed TLS files for etcd; keeping the old ones");
            }
        }
    }
}

fn connections(
    urls: &[String],
    tls: Option<&EtcdTls>,
) -> Result<Vec<(Endpoint, Grpc<Channel>)>, EndpointError> {
    let connection = |url: &String| -> Result<_, EndpointError> {
        let endpoint = prepare(url, tls)?;
        let grpc = connect(&endpoint);
        Ok((endpoint, grpc))
    };
    urls.iter().map(connection).collect()
}

/// Connects on first use.
pub fn connect(endpoint: &Endpoint) -> Grpc<Channel> {
    // A page of large blocks is more than the default allows.
    Grpc::new(endpoint.connect_lazy()).max_decoding_message_size(usize::MAX)
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
