//! A body over the limit, over a connection of HTTP/1.1: the client gets to read why it is refused,
//! and does not get to write for ever.

#![cfg(test)]

use std::sync::Arc;

use berth_apiserver::{Options, Server};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A request whose body is of this length, with nothing of the body sent yet.
async fn begin(server: &Server, length: usize) -> TlsStream<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(server.serve(listener).unwrap());
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(server.credentials().ca_pem().as_bytes()).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n",
        server.credentials().token()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_writes_it_all_first_reads_the_answer() {
    let server = Server::open(Options::default()).await.unwrap();
    let body = vec![b' '; 24 << 20];
    let mut stream = begin(&server, body.len()).await;
    stream.write_all(&body).await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("RequestEntityTooLarge") {
        assert_ne!(
            stream.read_buf(&mut answer).await.unwrap(),
            0,
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_ends_is_hung_up_on() {
    let server = Server::open(Options::default()).await.unwrap();
    let mut stream = begin(&server, usize::MAX >> 1).await;
    let chunk = vec![b' '; 1 << 20];
    // Of a server that reads on for ever this would never end.
    while stream.write_all(&chunk).await.is_ok() {}
    server.stop().await;
}
