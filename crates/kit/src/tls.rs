//! TLS from PEM files, for both ends of a connection. A server's files are read again while it
//! runs: certificates are renewed by others, and nobody restarts a server for it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the files are compared. A kubelet takes a minute or more to bring a changed Secret.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Why certificates, keys or CAs cannot be used. Most name the file and the fix.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error(
        "certificate {}: {why}; give a PEM file that begins with it, then its intermediates",
        path.display()
    )]
    Certificate { path: PathBuf, why: String },
    #[error("key {}: {why}; give a PEM file with the private key of the certificate", path.display())]
    Key { path: PathBuf, why: String },
    #[error(
        "CA {}: {why}; give a PEM file with the CA certificates to trust",
        path.display()
    )]
    Authority { path: PathBuf, why: String },
    #[error("the certificate and its key: {why}; issue new ones")]
    Given { why: String },
    #[error("certificate {} and key {}: {why}", certificate.display(), key.display())]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        why: String,
    },
}

/// The provider is named, because the default depends on what else is in the program.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    read(path).map_err(|why| CertificateError::Certificate {
        path: path.to_owned(),
        why,
    })
}

pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| CertificateError::Key {
        path: path.to_owned(),
        why: said(&error),
    })
}

pub fn authorities(path: &Path) -> Result<RootCertStore, CertificateError> {
    let failed = |why| CertificateError::Authority {
        path: path.to_owned(),
        why,
    };
    let mut roots = RootCertStore::empty();
    for certificate in read(path).map_err(failed)? {
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(certificates) if certificates.is_empty() => {
            Err("there is no certificate in it".to_owned())
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(said(&error)),
    }
}

fn said(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "there is none in it".to_owned(),
        other => other.to_string(),
    }
}

/// Where a server's certificate and key are, and who its clients must be.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Clients must show a certificate that one of these CAs has signed. `None`: clients need none.
    pub client_ca: Option<PathBuf>,
}

impl ServerFiles {
    fn config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let unusable = |error: rustls::Error| CertificateError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            why: error.to_string(),
        };
        let config = ServerConfig::builder_with_provider(provider());
        let config = config.with_safe_default_protocol_versions().map_err(unusable)?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.build().map_err(|error| CertificateError::Authority {
                    path: path.clone(),
                    why: error.to_string(),
                })?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let config = config.with_single_cert(chain(&self.certificate)?, key(&self.key)?);
        Ok(finish_config(config.map_err(unusable)?))
    }

    /// The content of each file, to notice a change. Modification times are no reliable sign: in a
    /// mounted Secret the files are links, and the kubelet turns them to another directory.
    fn contents(&self) -> [Option<Vec<u8>>; 3] {
        let content = |path: &PathBuf| std::fs::read(path).ok();
        let authority = self.client_ca.as_ref().and_then(content);
        [content(&self.certificate), content(&self.key), authority]
    }
}

/// Turns session resumption off, so that both ends show their certificates on every connection.
/// Otherwise an expired certificate would live on in a resumed session.
fn finish_config(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// The configuration of a server that makes its certificate itself, and asks its clients for none.
fn config_from_pem(certificate: &str, key: &str) -> Result<Arc<ServerConfig>, CertificateError> {
    let unusable = |why: String| CertificateError::Given { why };
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| unusable(said(&error)))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
    let key = key.map_err(|error| unusable(said(&error)))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
    Ok(finish_config(config.map_err(|error| unusable(error.to_string()))?))
}

/// A server's TLS, which follows its files or the certificates it is given. Clones share the same
/// state.
#[derive(Clone)]
pub struct ServerTls {
    /// `None` if the certificates come from [`Self::from_pem`].
    files: Option<Arc<ServerFiles>>,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ServerTls {
    pub fn load(files: ServerFiles) -> Result<Self, CertificateError> {
        let current = Arc::new(RwLock::new(files.config()?));
        let files = Some(Arc::new(files));
        Ok(Self { files, current })
    }

    /// From PEM texts, which [`Self::replace`] can replace.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, CertificateError> {
        let current = Arc::new(RwLock::new(config_from_pem(certificate, key)?));
        Ok(Self { files: None, current })
    }

    /// Takes effect from the next connection on. A pair that can't be used changes nothing.
    pub fn replace(&self, certificate: &str, key: &str) -> Result<(), CertificateError> {
        *self.current.write() = config_from_pem(certificate, key)?;
        Ok(())
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read())
    }

    /// Reads the files again when they change. Files that can't be used are reported, and the
    /// server goes on with what it has: the certificate and its key may be written one after the
    /// other.
    pub fn reload(&self, stop: CancellationToken) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(files) = &self.files else {
                return;
            };
            let reloading = async {
                let mut seen = files.contents();
                loop {
                    tokio::time::sleep(RELOAD_INTERVAL).await;
                    let now = files.contents();
                    if now == seen {
                        continue;
                    }
                    match files.config() {
                        Ok(config) => {
                            *self.current.write() = config;
                            let certificate = files.certificate.display();
                            info!(%certificate, "certificate files changed; reloaded them");
                        }
                        Err(error) => {
                            warn!(%error, "cannot use the changed certificate; keeping the old \
                                           one");
                        }
                    }
                    seen = now;
                }
            };
            stop.run_until_cancelled(reloading).await;
        })
    }
}

#[cfg(test)]
mod tests;
