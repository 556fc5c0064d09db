//! A certificate authority for one cluster, and the tokens of its users.

use std::net::IpAddr;

use anyhow::{Context, Result};
use rand::RngExt;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

/// A certificate and its key, both as PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn make() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("testbed", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("making a key")?;
        let pem = params.self_signed(&key).context("signing the authority")?.pem();
        Ok(Self { params, key, pem })
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub fn server(&self, addresses: &[IpAddr]) -> Result<Pair> {
        let names = ["localhost", "kubernetes", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned))?;
        let addresses = addresses.iter().copied().map(SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
        params.distinguished_name = name("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    pub fn client(&self, user: &str, group: &str) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, Some(group));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Pair> {
        let key = KeyPair::generate().context("making a key")?;
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).context("signing a certificate")?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn name(user: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name
}

/// The private and the public key for the tokens of service accounts.
pub fn signing_keys() -> Result<(String, String)> {
    let key = KeyPair::generate().context("making a key")?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

pub fn token() -> String {
    let secret: [u8; 24] = rand::rng().random();
    secret.iter().map(|byte| format!("{byte:02x}")).collect()
}
