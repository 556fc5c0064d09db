//! Requests that the server passes on to a node.

use axum::extract::Request;
use axum::response::Response;
use berth_apimachinery::status::{Result, Status};
use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use tower::ServiceExt;

use super::call::Front;

/// Only reads are passed on: no request changes anything on a node.
pub async fn to_node(
    front: &Front,
    target: &str,
    path: &str,
    mut request: Request,
) -> Result<Response> {
    if request.method() != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let decoded = percent_decode_str(target).decode_utf8_lossy().into_owned();
    let invalid = || Status::bad_request(format!("invalid node request {decoded:?}"));
    let (node, port) = split(&decoded).ok_or_else(invalid)?;
    let router = front.node_proxy.find(node, port).ok_or_else(|| Status {
        code: 503,
        reason: "ServiceUnavailable",
        ..Status::unclassified(format!("node {node} does not answer on port {port}"))
    })?;
    let query = request.uri().query().map(|query| format!("?{query}"));
    let uri = format!("/{path}{}", query.unwrap_or_default());
    *request.uri_mut() = uri.parse::<Uri>().map_err(|_| invalid())?;
    match router.oneshot(request).await {
        Ok(response) => Ok(response),
        Err(never) => match never {},
    }
}

/// `[SCHEME:]NAME:PORT`.
fn split(target: &str) -> Option<(&str, u16)> {
    let mut parts = target.rsplit(':');
    let port = parts.next()?.parse().ok()?;
    let node = parts.next()?;
    let known = matches!(parts.next(), None | Some("http" | "https" | ""));
    (known && parts.next().is_none()).then_some((node, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_may_be_asked_with_and_without_a_scheme() {
        assert_eq!(split("n1:10363"), Some(("n1", 10363)));
        assert_eq!(split("http:n1:10363"), Some(("n1", 10363)));
        for wrong in ["n1", "n1:", "n1:x", "ftp:n1:1", "a:http:n1:1"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
