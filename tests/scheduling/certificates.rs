//! Certificates of the extender and of its callers, in files that are named as in a Secret.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa};
use rcgen::{Issuer, KeyPair, KeyUsagePurpose};

/// The Service of `deploy/scheduler`, and `serverName` of kube-scheduler's configuration.
const SERVICE: &str = "berth-scheduler.kube-system.svc";

pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    pub fn make(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self { params, key }
    }

    /// `tls.crt`, `tls.key` and `ca.crt`: what the extender serves with, and who may call it.
    pub fn write_server(&self, directory: &Path) {
        self.write(directory, SERVICE, ExtendedKeyUsagePurpose::ServerAuth);
    }

    /// The same for kube-scheduler.
    pub fn write_client(&self, directory: &Path) {
        self.write(directory, "kube-scheduler", ExtendedKeyUsagePurpose::ClientAuth);
    }

    fn write(&self, directory: &Path, name: &str, usage: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let ca = self.params.self_signed(&self.key).unwrap();
        std::fs::create_dir_all(directory).unwrap();
        let files = [
            ("tls.crt", certificate.pem()),
            ("tls.key", key.serialize_pem()),
            ("ca.crt", ca.pem()),
        ];
        for (name, text) in files {
            std::fs::write(directory.join(name), text).unwrap();
        }
    }
}
