//! Requests as no client of ours sends them.

use std::io;
use std::sync::Arc;

use berth_testkit::certificates::Pair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::world::World;

/// With a certificate, or without.
pub async fn connect(world: &World, pair: Option<&Pair>) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(world.authority.file()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots);
    let config = match pair {
        None => config.with_no_client_auth(),
        Some(pair) => {
            let chain = vec![CertificateDer::from_pem_file(&pair.certificate).unwrap()];
            let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let tcp = TcpStream::connect(world.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await
}

/// Sends bytes and reads until the service closes the connection.
pub async fn exchange(world: &World, pair: Option<&Pair>, bytes: &[u8]) -> io::Result<String> {
    let mut stream = connect(world, pair).await?;
    stream.write_all(bytes).await?;
    let mut answer = Vec::new();
    // Servers may close without a farewell once the answer is there.
    match stream.read_to_end(&mut answer).await {
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(String::from_utf8(answer).unwrap()),
    }
}

/// The code and the body of the answer.
pub async fn ask(world: &World, pair: &Pair, method: &str, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let answer = exchange(world, Some(pair), request.as_bytes()).await.unwrap();
    parsed(&answer)
}

pub fn parsed(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
    };
    (code, body)
}
