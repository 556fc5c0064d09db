//! Which callers are accepted. Against DNS rebinding: a foreign page can make a browser call this
//! port under the page's own name, but not under a loopback name. Against requests of other sites:
//! these cannot be JSON with this page's own origin.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
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

/// For every request with a body. A form of another site cannot send JSON, and a script must ask
/// first with a preflight request, which nobody answers here. The browser also sends the origin.
pub async fn own_page_only(request: Request, next: Next) -> Response {
    match is_own(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => {
            let status = match error {
                CallerError::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                CallerError::Origin => StatusCode::FORBIDDEN,
            };
            (status, format!("{error}\n")).into_response()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum CallerError {
    #[error("Content-Type: send application/json.")]
    ContentType,
    #[error("Origin: only this page may send that; a program must set it to http:// and the Host.")]
    Origin,
}

fn is_own(headers: &HeaderMap) -> Result<(), CallerError> {
    let text = |name: header::HeaderName| {
        let mut all = headers.get_all(name).iter();
        let first = all.next().and_then(|value| value.to_str().ok());
        // A header that is there twice counts as missing.
        first.filter(|_| all.next().is_none())
    };
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(CallerError::ContentType);
    }
    let host = text(header::HOST).map(|host| format!("http://{host}"));
    let origin = text(header::ORIGIN);
    let is_same = host
        .zip(origin)
        .is_some_and(|(host, origin)| host.eq_ignore_ascii_case(origin));
    let site = headers.get("sec-fetch-site");
    let is_of_page = site.is_none_or(|site| site.as_bytes() == b"same-origin");
    if is_same && is_of_page {
        Ok(())
    } else {
        Err(CallerError::Origin)
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

    fn verdict(lines: &[(&'static str, &str)]) -> Result<(), CallerError> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        is_own(&headers)
    }

    #[test]
    fn only_json_of_the_own_origin_is_let_in() {
        let json = ("content-type", "application/json; charset=utf-8");
        let host = ("host", "localhost:7480");
        let own = ("origin", "http://localhost:7480");
        assert_eq!(verdict(&[json, host, own]), Ok(()));
        assert_eq!(verdict(&[json, host, own, ("sec-fetch-site", "same-origin")]), Ok(()));
        for site in ["same-site", "cross-site", "none"] {
            let found = verdict(&[json, host, own, ("sec-fetch-site", site)]);
            assert_eq!(found, Err(CallerError::Origin), "{site}");
        }
        for origin in ["null", "http://localhost:7481", "https://localhost:7480", "http://evil"] {
            let found = verdict(&[json, host, ("origin", origin)]);
            assert_eq!(found, Err(CallerError::Origin), "{origin}");
        }
        assert_eq!(verdict(&[json, host]), Err(CallerError::Origin));
        assert_eq!(verdict(&[json, host, own, own]), Err(CallerError::Origin));
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json2"] {
            let found = verdict(&[("content-type", kind), host, own]);
            assert_eq!(found, Err(CallerError::ContentType), "{kind}");
        }
        assert_eq!(verdict(&[host, own]), Err(CallerError::ContentType));
    }
}
