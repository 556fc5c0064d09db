use std::fs;

use tempfile::TempDir;

use super::*;

struct Issued {
    directory: TempDir,
    files: ServerFiles,
}

impl Issued {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = ServerFiles {
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
            client_ca: None,
        };
        let issued = Self { directory, files };
        issued.renew();
        issued
    }

    /// Returns the certificate that a client would see.
    fn renew(&self) -> CertificateDer<'static> {
        let pair = rcgen::generate_simple_self_signed(["berth.test".to_owned()]).unwrap();
        fs::write(&self.files.certificate, pair.cert.pem()).unwrap();
        fs::write(&self.files.key, pair.signing_key.serialize_pem()).unwrap();
        pair.cert.der().clone()
    }
}

/// Whether a server with this configuration shows the expected certificate.
async fn shown(config: Arc<ServerConfig>, expected: &CertificateDer<'static>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(expected.clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    let (connected, _) = tokio::join!(
        connector.connect("berth.test".try_into().unwrap(), near),
        acceptor.accept(far)
    );
    connected.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    let issued = Issued::new();
    let tls = ServerTls::load(issued.files.clone()).unwrap();
    let reloading = tokio::spawn({
        let tls = tls.clone();
        async move { tls.reload(CancellationToken::new()).await }
    });
    tokio::task::yield_now().await;

    let renewed = issued.renew();
    assert!(!shown(tls.config(), &renewed).await);
    tokio::time::sleep(RELOAD_INTERVAL * 2).await;
    assert!(shown(tls.config(), &renewed).await);

    // Half of a pair, as between two writes: the old one stays, and the whole one is taken.
    let half = rcgen::generate_simple_self_signed(["berth.test".to_owned()]).unwrap();
    fs::write(&issued.files.certificate, half.cert.pem()).unwrap();
    tokio::time::sleep(RELOAD_INTERVAL * 2).await;
    assert!(shown(tls.config(), &renewed).await);
    fs::write(&issued.files.key, half.signing_key.serialize_pem()).unwrap();
    tokio::time::sleep(RELOAD_INTERVAL * 2).await;
    assert!(shown(tls.config(), half.cert.der()).await);
    reloading.abort();
}

#[test]
fn what_can_t_be_used_is_named_with_its_file_and_the_fix() {
    let issued = Issued::new();
    let path = issued.directory.path().join("other");
    let load = |files: ServerFiles| ServerTls::load(files).unwrap_err().to_string();
    let missing = ServerFiles {
        certificate: path.clone(),
        ..issued.files.clone()
    };
    assert!(load(missing).starts_with(&format!("certificate {}: ", path.display())));
    let no_key = ServerFiles {
        key: issued.files.certificate.clone(),
        ..issued.files.clone()
    };
    assert!(load(no_key).contains("give a PEM file with the private key"));
    let no_authority = ServerFiles {
        client_ca: Some(issued.files.key.clone()),
        ..issued.files.clone()
    };
    assert!(load(no_authority).contains("there is no certificate in it"));
}
