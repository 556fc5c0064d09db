//! Finds out whether a service that ended a connection without a reason refuses our certificate.
//!
//! In TLS 1.3 a client learns that only after it counts as connected. If the alert arrives before
//! the request is sent, the request only reports that its connection is gone. A connection without
//! a request receives the alert, or nothing.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Time for the alert: a service that accepts the certificate sends nothing unasked.
const ALERT_TIMEOUT: Duration = Duration::from_secs(1);

/// The error that ends a new connection, if it ends at once.
pub async fn read_alert(uri: &Uri, config: Arc<ClientConfig>) -> Option<io::Error> {
    tokio::time::timeout(ALERT_TIMEOUT, connect_and_listen(uri, config))
        .await
        .ok()?
        .err()
}

async fn connect_and_listen(uri: &Uri, config: Arc<ClientConfig>) -> io::Result<()> {
    let host = uri.host().unwrap_or_default();
    // Brackets are for URLs.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(443))).await?;
    let mut stream = TlsConnector::from(config).connect(name, stream).await?;
    stream.read_u8().await.map(drop)
}
