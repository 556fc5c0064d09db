//! A minimal HTTPS client that checks whether a server answers. It needs no async runtime, and
//! costs less than starting kubectl twenty times a second.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

/// A client for one server that trusts one authority.
#[derive(Debug)]
pub struct HttpsClient {
    address: SocketAddr,
    config: Arc<ClientConfig>,
}

impl HttpsClient {
    pub fn new(address: SocketAddr, ca: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(ca.as_bytes())
            .context("reading the authority's certificate")?;
        roots.add(ca).context("trusting the authority")?;
        // Named explicitly: the default provider depends on the other crates of the program.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("choosing TLS versions")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address,
            config: Arc::new(config),
        })
    }

    /// Whether `path` answers with 200.
    pub fn is_ok(&self, path: &str) -> bool {
        self.status(path).is_ok_and(|line| line.starts_with("HTTP/1.1 200"))
    }

    fn status(&self, path: &str) -> Result<String> {
        let name = ServerName::IpAddress(self.address.ip().into());
        let mut connection = ClientConnection::new(Arc::clone(&self.config), name)?;
        let mut socket = TcpStream::connect(self.address)?;
        let mut stream = Stream::new(&mut connection, &mut socket);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.address
        )?;
        let mut start = [0; 32];
        let length = stream.read(&mut start)?;
        Ok(String::from_utf8_lossy(&start[..length]).into_owned())
    }
}
