//! The members of an etcd, and which of them is asked. One that does not answer, or says that it
//! can't, is left for the next: a member that is killed, stands still or is cut off costs one
//! attempt.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tracing::{info, warn};

use super::tls::EtcdTls;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection that died without a word is noticed after both, so that no watch listens to it for
/// ever.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(5);
/// How often the files of certificates are looked at, at most.
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
    /// Which is asked.
    current: AtomicUsize,
    lines: RwLock<Lines>,
}

#[derive(Debug)]
struct Lines {
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
    /// Connects when one is first asked.
    pub fn new(urls: &[String], tls: Option<&EtcdTls>) -> Result<Self, EndpointError> {
        if urls.is_empty() {
            return Err(EndpointError::None);
        }
        Ok(Self {
            urls: urls.to_vec(),
            current: AtomicUsize::new(0),
            lines: RwLock::new(Lines {
                tls: tls.cloned(),
                looked: Instant::now(),
                members: lines(urls, tls)?,
            }),
        })
    }

    pub fn count(&self) -> usize {
        self.urls.len()
    }

    pub fn current(&self) -> Option<Member> {
        self.reload();
        let number = self.current.load(Ordering::Relaxed);
        let lines = self.lines.read();
        let (endpoint, grpc) = lines.members.get(number)?.clone();
        Some(Member {
            number,
            endpoint,
            grpc,
        })
    }

    /// It is of no use for now. Whoever finds that out first has the others ask the next.
    pub fn leave(&self, number: usize) {
        let next = (number + 1) % self.count();
        let (from, to) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.current.compare_exchange(number, next, from, to);
    }

    /// With what is in the files by now. What can't be used is reported, and the old stays: the
    /// certificate and its key may be written one after the other.
    fn reload(&self) {
        if self.lines.read().looked.elapsed() < RELOAD_INTERVAL {
            return;
        }
        let mut lines = self.lines.write();
        lines.looked = Instant::now();
        let Some(read) = lines.tls.as_ref().and_then(EtcdTls::read_again) else {
            return;
        };
        let tls = match read {
            Ok(tls) => tls,
            Err(error) => {
                warn!(%error, "a file for etcd can't be read; what was read of it stays");
                return;
            }
        };
        if lines.tls.as_ref() == Some(&tls) {
            return;
        }
        match self::lines(&self.urls, Some(&tls)) {
            Ok(members) => {
                info!("read the certificate for etcd again: its files have changed");
                lines.members = members;
                lines.tls = Some(tls);
            }
            Err(error) => warn!(%error, "the changed files for etcd can't be used; the old stay"),
        }
    }
}

fn lines(
    urls: &[String],
    tls: Option<&EtcdTls>,
) -> Result<Vec<(Endpoint, Grpc<Channel>)>, EndpointError> {
    let line = |url: &String| -> Result<_, EndpointError> {
        let endpoint = prepare(url, tls)?;
        let grpc = connect(&endpoint);
        Ok((endpoint, grpc))
    };
    urls.iter().map(line).collect()
}

/// When it is first used.
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
