//! The CA, the token, and the server's certificate, which each start signs again.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use berth_kit::private_file;
use rand::RngExt;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::StartError;

/// What a client needs to trust the server, and the server to trust a client.
pub struct Credentials {
    ca: String,
    key: KeyPair,
    token: String,
    directory: PathBuf,
}

/// Keeps the key and the token out of logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    pub fn make() -> Result<Self, StartError> {
        let failed = |error: rcgen::Error| StartError::Credentials {
            path: PathBuf::new(),
            why: error.to_string(),
        };
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = ca_params().self_signed(&key).map_err(failed)?;
        let secret: [u8; 24] = rand::rng().random();
        Ok(Self {
            ca: certificate.pem(),
            key,
            token: secret.iter().map(|byte| format!("{byte:02x}")).collect(),
            directory: PathBuf::new(),
        })
    }

    pub fn load_or_make(directory: &Path) -> Result<Self, StartError> {
        let failed = |why: String| StartError::Credentials {
            path: directory.to_owned(),
            why,
        };
        let file = |name: &str| directory.join(name);
        if !file("ca.crt").exists() {
            let made = Self::make()?;
            std::fs::create_dir_all(directory).map_err(|error| failed(error.to_string()))?;
            // The CA certificate is written last. Without it the set was never complete, and no
            // client has seen a part of it, so the next start recreates all of it.
            for (name, content) in [
                ("token", made.token.as_str()),
                ("ca.key", &made.key.serialize_pem()),
                ("ca.crt", &made.ca),
            ] {
                private_file::write(&file(name), content)
                    .map_err(|error| failed(format!("{name}: {error}")))?;
            }
            return Ok(Self {
                directory: directory.to_owned(),
                ..made
            });
        }
        let read = |name: &str| {
            std::fs::read_to_string(file(name)).map_err(|error| failed(format!("{name}: {error}")))
        };
        let key = KeyPair::from_pem(&read("ca.key")?)
            .map_err(|error| failed(format!("ca.key: {error}")))?;
        let token = read("token")?.trim().to_owned();
        if token.is_empty() {
            return Err(failed("token: is empty".to_owned()));
        }
        Ok(Self {
            ca: read("ca.crt")?,
            key,
            token,
            directory: directory.to_owned(),
        })
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// The certificate names loopback by every name, and the address of the listener.
    pub fn server_config(
        &self,
        listening: Option<IpAddr>,
    ) -> Result<Arc<ServerConfig>, StartError> {
        let failed = |why: String| StartError::Credentials {
            path: self.directory.clone(),
            why,
        };
        let key = KeyPair::generate().map_err(|error| failed(error.to_string()))?;
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), "kubernetes".to_owned()])
                .map_err(|error| failed(error.to_string()))?;
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        addresses.extend(
            listening.filter(|address| !address.is_loopback() && !address.is_unspecified()),
        );
        params
            .subject_alt_names
            .extend(addresses.into_iter().map(SanType::IpAddress));
        params.distinguished_name = named("berth-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issuing = ca_params();
        let issuer = Issuer::from_params(&issuing, &self.key);
        let certificate = params
            .signed_by(&key, &issuer)
            .map_err(|error| failed(error.to_string()))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| failed(error.to_string()))?
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], key)
                .map_err(|error| failed(error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        let ca = BASE64_STANDARD.encode(&self.ca);
        let token = &self.token;
        // A server that listens on all addresses is reached by loopback on this machine.
        let address = match address.ip() {
            ip if ip.is_unspecified() && ip.is_ipv4() => {
                SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port())
            }
            ip if ip.is_unspecified() => {
                SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port())
            }
            _ => address,
        };
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: berth\nclusters:\n- name: \
             berth\n  cluster:\n    server: https://{address}\n    \
             certificate-authority-data: {ca}\nusers:\n- name: berth\n  user:\n    \
             token: {token}\ncontexts:\n- name: berth\n  context:\n    cluster: berth\n    \
             user: berth\n    namespace: default\n"
        )
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = named("berth-ca");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_first_start_left_is_made_good() {
        let left = [
            &[][..],
            &["token"],
            &["token", "ca.key"],
            &["token", "ca.key", "ca.new"],
        ];
        for names in left {
            let directory = tempfile::tempdir().unwrap();
            let pki = directory.path().join("pki");
            std::fs::create_dir(&pki).unwrap();
            for name in names {
                std::fs::write(pki.join(name), "half").unwrap();
            }
            let made = Credentials::load_or_make(&pki).unwrap();
            assert_ne!(made.token(), "half");
            let again = Credentials::load_or_make(&pki).unwrap();
            assert_eq!((again.token(), again.ca_pem()), (made.token(), made.ca_pem()));
        }
    }

    /// Clients trust that certificate, so it must not be replaced without their knowledge.
    #[test]
    fn a_set_that_was_complete_is_not_recreated() {
        for name in ["token", "ca.key"] {
            let directory = tempfile::tempdir().unwrap();
            Credentials::load_or_make(directory.path()).unwrap();
            std::fs::remove_file(directory.path().join(name)).unwrap();
            let refused = Credentials::load_or_make(directory.path()).unwrap_err().to_string();
            assert!(
                refused.contains(name) && refused.contains("remove that directory"),
                "{refused}"
            );
        }
    }
}
