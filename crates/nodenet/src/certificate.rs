//! The cluster that a client speaks for: its certificate's Common Name.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The one Common Name. A certificate with several could be read in two ways.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    (names.next().is_none() && !name.is_empty()).then_some(name)
}
