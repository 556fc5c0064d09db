//! Against DNS rebinding: a page from elsewhere can make a browser call this port under its own
//! name, but not under loopback's.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

pub async fn loopback_only(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_loopback) {
        next.run(request).await
    } else {
        let text = "Call this page by 127.0.0.1, [::1] or localhost.\n";
        (StatusCode::FORBIDDEN, text).into_response()
    }
}

/// A name or address of this machine, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopbacks_names_are_let_in() {
        for host in [
            "localhost",
            "LOCALHOST:7480",
            "127.0.0.1:7480",
            "127.9.9.9",
            "[::1]:7480",
            "[::1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "example.com:7480",
            "localhost.example.com",
            "10.0.0.1:7480",
            "127.0.0.1.nip.io",
            "localhost:",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
