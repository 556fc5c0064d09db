//! Certificates for one test, in files.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType};
use rcgen::{ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

#[derive(Debug)]
pub struct Authority {
    directory: PathBuf,
    name: String,
    params: CertificateParams,
    key: KeyPair,
}

/// The files of a certificate and of its key.
#[derive(Clone, Debug)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn make(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let authority = Self {
            directory: directory.to_owned(),
            name: name.to_owned(),
            params,
            key,
        };
        let pem = authority.params.self_signed(&authority.key).unwrap().pem();
        std::fs::write(authority.file(), pem).unwrap();
        authority
    }

    pub fn file(&self) -> PathBuf {
        self.directory.join(format!("{}.ca.crt", self.name))
    }

    pub fn server(&self) -> Pair {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign("server", &params)
    }

    pub fn client(&self, cluster: &str) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, cluster);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(cluster, &params)
    }

    /// Signs a certificate and stores it in `file`.
    pub fn sign(&self, file: &str, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let path = |end: &str| self.directory.join(format!("{}.{file}.{end}", self.name));
        let pair = Pair {
            certificate: path("crt"),
            key: path("key"),
        };
        std::fs::write(&pair.certificate, certificate.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}
