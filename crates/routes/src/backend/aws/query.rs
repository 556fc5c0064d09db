//! AWS's query APIs: the request is a form, the answer XML.

use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::xml::Element;
use crate::backend::http::Answer;
use crate::backend::{BackendError, ErrorKind};

pub const CONTENT_TYPE: &str = "application/x-www-form-urlencoded; charset=utf-8";
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// EC2's code for a route that does not exist.
const NOT_THERE: &str = "InvalidRoute.NotFound";

/// The body of a call.
pub fn form(action: &str, version: &str, parameters: &[(String, String)]) -> String {
    let mut body = format!("Action={action}&Version={version}");
    for (name, value) in parameters {
        body.push_str(&format!("&{name}={}", utf8_percent_encode(value, ENCODED)));
    }
    body
}

pub fn read(action: &str, answer: &Answer) -> Result<Element, BackendError> {
    let root = Element::parse(&answer.text());
    if answer.status.is_success() {
        let garbage = || BackendError::unavailable(format!("{action}: the answer is not XML"));
        return root.ok_or_else(garbage);
    }
    let error = root.as_ref().and_then(|root| root.find("Error"));
    let (code, message) = error.map_or(("", ""), |error| {
        (error.text("Code"), error.text("Message"))
    });
    let kind = answer
        .throttled()
        .unwrap_or_else(|| kind(answer.status, code));
    let message = match code {
        "" => format!("{action}: {}", answer.status),
        code => format!("{action}: {code}: {message}"),
    };
    Err(BackendError::new(kind, message))
}

fn kind(status: StatusCode, code: &str) -> ErrorKind {
    match code {
        "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "TooManyRequestsException"
        | "Client.RequestLimitExceeded" => ErrorKind::Throttled { retry_after: None },
        "RouteLimitExceeded" => ErrorKind::Quota,
        "AuthFailure"
        | "UnauthorizedOperation"
        | "InvalidClientTokenId"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidIdentityToken"
        | "IDPRejectedClaim"
        | "AccessDenied"
        | "RequestExpired"
        | "MissingAuthenticationToken"
        | "OptInRequired"
        | "Blocked" => ErrorKind::Unauthorized,
        "RouteAlreadyExists" | NOT_THERE => ErrorKind::Conflict,
        _ if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN => {
            ErrorKind::Unauthorized
        }
        _ if status.is_client_error() => ErrorKind::Refused,
        _ => ErrorKind::Unavailable,
    }
}

pub fn is_not_there(error: &BackendError) -> bool {
    error.kind == ErrorKind::Conflict && error.message.contains(NOT_THERE)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    fn error(status: u16, code: &str) -> BackendError {
        let body = format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>why</Message></Error></Errors></Response>"
        );
        read("CreateRoute", &answer(status, &body)).unwrap_err()
    }

    #[test]
    fn errors_are_told_apart_by_their_codes() {
        assert!(matches!(
            error(503, "RequestLimitExceeded").kind,
            ErrorKind::Throttled { .. }
        ));
        assert_eq!(error(400, "RouteLimitExceeded").kind, ErrorKind::Quota);
        assert_eq!(error(401, "AuthFailure").kind, ErrorKind::Unauthorized);
        assert_eq!(error(400, "RouteAlreadyExists").kind, ErrorKind::Conflict);
        assert_eq!(
            error(400, "InvalidInstanceID.NotFound").kind,
            ErrorKind::Refused
        );
        assert_eq!(error(500, "InternalError").kind, ErrorKind::Unavailable);
        assert_eq!(
            error(400, "RouteLimitExceeded").message,
            "CreateRoute: RouteLimitExceeded: why"
        );
    }

    #[test]
    fn garbage_is_no_answer() {
        for body in ["", "hello", "<a>"] {
            let error = read("DescribeRouteTables", &answer(200, body)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable);
        }
    }
}
