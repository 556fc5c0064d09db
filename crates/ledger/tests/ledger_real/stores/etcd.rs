//! The store in etcd.

use std::sync::Arc;
use std::time::Duration;

use berth_ledger::store::{Change, EtcdDocument, EtcdFiles, EtcdStore, EtcdTls, Store, Written};
use futures::StreamExt;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::line::{self, Line};
use super::promises::{Pair, done, subnet_of};
use super::records;
use crate::servers;

async fn open(promise: &str) -> Pair {
    Pair {
        one: Arc::new(connect(servers::etcd(), promise).await),
        other: Arc::new(connect(servers::etcd(), promise).await),
        subnet: subnet_of(promise),
    }
}

every_promise!(open);

async fn connect(endpoint: &str, prefix: &str) -> EtcdStore {
    EtcdStore::connect(&[endpoint.to_owned()], prefix, None).await.unwrap()
}

/// `one` by a line that can fail, `other` directly.
async fn on_a_line(test: &str) -> (Pair, Line) {
    let server = servers::etcd().trim_start_matches("http://").parse().unwrap();
    let line = Line::to(server, None).await;
    let pair = Pair {
        one: Arc::new(connect(&format!("http://{}", line.address), test).await),
        ..open(test).await
    };
    (pair, line)
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown_and_can_be_there() {
    let (pair, line) = on_a_line("a_write_without_an_answer").await;
    line::a_write_without_an_answer_is_unknown(&pair, &line).await;
}

#[tokio::test]
async fn a_watch_that_broke_says_so_and_goes_on() {
    let (pair, line) = on_a_line("a_watch_that_broke").await;
    let mut changes = pair.one.watch(&pair.subnet).await.unwrap();
    line.cut();
    assert!(matches!(changes.next().await.unwrap(), Change::Lost));
    let version = done(&pair.other, pair.write(1, None, records::of("a"))).await;
    match changes.next().await.unwrap() {
        Change::Written(stored) => assert_eq!(stored.version, version),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_no_block_is_an_error_that_names_it() {
    let pair = open("what_is_no_block").await;
    // Another ledger with a prefix inside of ours: to us, its blocks are strangers in subnet
    // `inner`.
    let inner = connect(servers::etcd(), "what_is_no_block/blocks/inner").await;
    let inner: Arc<dyn Store> = Arc::new(inner);
    done(&inner, pair.write(1, None, records::of("a"))).await;
    let error = pair.one.load("inner").await.unwrap_err().to_string();
    assert!(
        error.contains(&format!(
            "what_is_no_block/blocks/inner/blocks/{}/10.0.1.0",
            pair.subnet
        )),
        "{error}"
    );
    assert_eq!(
        pair.one.load(&pair.subnet).await.unwrap(),
        [],
        "other subnets are not concerned"
    );
}

#[tokio::test]
async fn a_unit_of_another_prefix_length_is_refused_and_named() {
    let pair = open("units_of_another_length").await;
    done(&pair.one, pair.write(1, None, records::of("a"))).await;
    let mut write = pair.write(1, None, records::of("b"));
    write.key.first = "10.0.1.0/28".parse().unwrap();
    let key = write.key.clone();
    assert_eq!(pair.one.write(vec![write]).await, [Written::Conflict]);
    let error = pair.one.read(&key).await.unwrap_err().to_string();
    assert!(
        error.contains("10.0.1.0") && error.contains("units of length 32, not 28"),
        "{error}"
    );
}

#[tokio::test]
async fn etcd_over_tls_needs_trusted_certificates_on_both_sides() {
    let ca = CertifiedIssuer::self_signed(ca_params(), KeyPair::generate().unwrap()).unwrap();
    let stranger = CertifiedIssuer::self_signed(ca_params(), KeyPair::generate().unwrap()).unwrap();
    let server = servers::etcd().trim_start_matches("http://").parse().unwrap();
    let line = Line::to(server, Some(acceptor(&ca))).await;
    let endpoint = [format!("https://{}", line.address)];
    let tls = |trusted: &Issuer, signer: Option<&Issuer>| {
        EtcdTls::from_pem(trusted.pem(), signer.map(signed))
    };

    let store = EtcdStore::connect(&endpoint, "tls", Some(&tls(&ca, Some(&ca))))
        .await
        .unwrap();
    assert_eq!(store.load("pods").await.unwrap(), []);
    let without = EtcdStore::connect(&endpoint, "tls", Some(&tls(&ca, None))).await;
    let unknown = EtcdStore::connect(&endpoint, "tls", Some(&tls(&ca, Some(&stranger)))).await;
    let distrusting = EtcdStore::connect(&endpoint, "tls", Some(&tls(&stranger, Some(&ca)))).await;
    assert!(without.is_err() && unknown.is_err() && distrusting.is_err());
    let error = EtcdStore::connect(&endpoint, "tls", None)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("is https: name the CA"), "{error}");
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    let ca = CertifiedIssuer::self_signed(ca_params(), KeyPair::generate().unwrap()).unwrap();
    let stranger = CertifiedIssuer::self_signed(ca_params(), KeyPair::generate().unwrap()).unwrap();
    let server = servers::etcd().trim_start_matches("http://").parse().unwrap();
    let line = Line::to(server, Some(acceptor(&ca))).await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |signer: &Issuer| {
        let (certificate, key) = signed(signer);
        std::fs::write(path("tls.crt"), certificate).unwrap();
        std::fs::write(path("tls.key"), key).unwrap();
    };
    std::fs::write(path("ca.crt"), ca.pem()).unwrap();
    write(&stranger);
    let files = EtcdFiles {
        ca: path("ca.crt"),
        identity: Some((path("tls.crt"), path("tls.key"))),
    };
    let tls = EtcdTls::from_files(files).unwrap();
    let endpoint = [format!("https://{}", line.address)];
    let document = EtcdDocument::new(&endpoint, "reload", "a", Some(&tls)).unwrap();
    assert!(document.read().await.is_err(), "etcd does not trust this one");

    // Half of a pair, as between two writes: the old one stays.
    std::fs::write(path("tls.key"), "nothing").unwrap();
    pass_reload_interval().await;
    assert!(document.read().await.is_err());
    write(&ca);
    pass_reload_interval().await;
    assert_eq!(document.read().await.unwrap(), None);
}

/// Without waiting for it.
async fn pass_reload_interval() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// A certificate for this machine, and its key.
fn signed(ca: &Issuer) -> (String, String) {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, ca).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// As etcd does it with `--client-cert-auth`.
fn acceptor(ca: &Issuer) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let (certificate, key) = signed(ca);
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_client_cert_verifier(verifier.build().unwrap());
    let mut config = config.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config).into()
}
