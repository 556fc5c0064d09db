//! Certificates and keys from files, for both ends of a connection. The cluster that a client speaks for is its certificate's Common Name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Each names the file, and the fix.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("certificate {}: {why}; give a PEM file that has it first and then those that signed it", path.display())]
    Certificate { path: PathBuf, why: String },
    #[error("key {}: {why}; give a PEM file with the private key of the certificate", path.display())]
    Key { path: PathBuf, why: String },
    #[error("CA {}: {why}; give a PEM file with the certificates of those whose signature is to be trusted", path.display())]
    Authority { path: PathBuf, why: String },
    #[error("certificate {} and key {}: {why}", certificate.display(), key.display())]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        why: String,
    },
    #[error("certificate {}: it has no Common Name, or several: issue one whose Common Name is the cluster's name", path.display())]
    NoCluster { path: PathBuf },
}

/// Named, because which provider is the default depends on what else is in the program.
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
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("there is no certificate in it".to_owned()),
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

/// The one Common Name. A certificate with several could be read in two ways.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    (names.next().is_none() && !name.is_empty()).then_some(name)
}
