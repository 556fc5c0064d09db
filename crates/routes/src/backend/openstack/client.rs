//! Neutron's API: JSON both ways, a token with each call.

use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::keystone::{self, Session};
use super::settings::{Auth, OpenStackSettings};
use crate::backend::http::{Answer, Http, request};
use crate::backend::{BackendError, ErrorKind};

#[derive(Debug)]
pub struct Client {
    http: Http,
    settings: OpenStackSettings,
    session: Mutex<Option<Session>>,
}

#[derive(Deserialize)]
struct Extensions {
    extensions: Vec<Extension>,
}

#[derive(Deserialize)]
struct Extension {
    alias: String,
}

/// The body of an error of Neutron.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default, rename = "NeutronError")]
    error: NeutronError,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NeutronError {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

impl Client {
    pub fn new(settings: OpenStackSettings) -> Result<Self, BackendError> {
        Ok(Self {
            http: Http::new()?,
            settings,
            session: Mutex::default(),
        })
    }

    pub async fn extensions(&self) -> Result<Vec<String>, BackendError> {
        let path = "/v2.0/extensions";
        let found: Extensions = self
            .ask("GET extensions", Method::GET, path, None, None)
            .await?;
        Ok(found.extensions.into_iter().map(|one| one.alias).collect())
    }

    /// With a revision, the write happens only if the object still has it. A refused token is
    /// renewed once.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        what: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
        revision: Option<u64>,
    ) -> Result<T, BackendError> {
        let mut answer = self.send(what, &method, path, body, revision).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            *self.session.lock() = None;
            answer = self.send(what, &method, path, body, revision).await?;
        }
        if !answer.status.is_success() {
            return Err(refusal(what, &answer));
        }
        let garbage = |_| BackendError::unavailable(format!("{what}: the answer is not Neutron's"));
        serde_json::from_slice(&answer.body).map_err(garbage)
    }

    async fn send(
        &self,
        what: &str,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        revision: Option<u64>,
    ) -> Result<Answer, BackendError> {
        let session = self.session().await?;
        let uri = format!("{}{path}", session.endpoint);
        let matches = revision.map(|revision| format!("revision_number={revision}"));
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json"),
        ];
        if let Some(token) = &session.token {
            headers.push(("x-auth-token", token));
        }
        if let Some(matches) = &matches {
            headers.push(("if-match", matches));
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = request(what, method.clone(), &uri, &headers, body)?;
        self.http.call(what, request).await
    }

    async fn session(&self) -> Result<Session, BackendError> {
        if let Some(session) = self.session.lock().clone().filter(Session::is_valid) {
            return Ok(session);
        }
        let session = match &self.settings.auth {
            Auth::None { endpoint } => Session::without_token(endpoint),
            Auth::Keystone(auth) => keystone::log_in(&self.http, auth).await?,
        };
        *self.session.lock() = Some(session.clone());
        Ok(session)
    }
}

fn refusal(what: &str, answer: &Answer) -> BackendError {
    let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
    let NeutronError {
        kind: name,
        message,
    } = refusal.error;
    let kind = answer
        .throttled()
        .unwrap_or(match (answer.status, name.as_str()) {
            (_, "RoutesExhausted" | "OverQuota" | "AllowedAddressPairExhausted") => {
                ErrorKind::Quota
            }
            (StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED, _) => ErrorKind::Conflict,
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => ErrorKind::Unauthorized,
            (status, _) if status.is_client_error() => ErrorKind::Refused,
            _ => ErrorKind::Unavailable,
        });
    let message = match name.as_str() {
        "" => format!("{what}: {}", answer.status),
        name => format!("{what}: {name}: {message}"),
    };
    BackendError::new(kind, message)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn kind(status: u16, name: &str) -> ErrorKind {
        let body = format!(r#"{{"NeutronError": {{"type": "{name}", "message": "why"}}}}"#);
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from(body),
        };
        refusal("add_extraroutes", &answer).kind
    }

    #[test]
    fn errors_are_told_apart_by_their_types() {
        assert_eq!(kind(400, "RoutesExhausted"), ErrorKind::Quota);
        assert_eq!(kind(400, "InvalidRoutes"), ErrorKind::Refused);
        assert_eq!(
            kind(412, "RevisionNumberConstraintFailed"),
            ErrorKind::Conflict
        );
        assert_eq!(kind(401, ""), ErrorKind::Unauthorized);
        assert_eq!(kind(429, ""), ErrorKind::Throttled { retry_after: None });
        assert_eq!(kind(500, "Internal"), ErrorKind::Unavailable);
    }
}
