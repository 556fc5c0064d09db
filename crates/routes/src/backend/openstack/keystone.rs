//! A token of Keystone, and the endpoint of Neutron. Neither token nor password is ever shown.

use std::fmt;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::settings::{Identity, Keystone, Project};
use crate::backend::http::{Http, request};
use crate::backend::{BackendError, ErrorKind};

/// A token is renewed this long before it expires.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_mins(2);

#[derive(Clone)]
pub struct Session {
    /// `https://network.example.com:9696`
    pub endpoint: String,
    pub token: Option<String>,
    expires: Option<Timestamp>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Session");
        fields
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub fn without_token(endpoint: &str) -> Self {
        Self {
            endpoint: plain(endpoint),
            token: None,
            expires: None,
        }
    }

    pub fn is_valid(&self) -> bool {
        self.expires
            .is_none_or(|end| end - RENEW_BEFORE > Timestamp::now())
    }
}

#[derive(Deserialize)]
struct Answer {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    expires_at: String,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region: Option<String>,
    url: String,
}

pub async fn log_in(http: &Http, auth: &Keystone) -> Result<Session, BackendError> {
    let what = "Keystone";
    let base = plain(&auth.url);
    let base = base.strip_suffix("/v3").unwrap_or(&base);
    let uri = format!("{base}/v3/auth/tokens");
    let json = [("content-type", "application/json")];
    let request = request(what, Method::POST, &uri, &json, body(auth).to_string())?;
    let answer = http.call(what, request).await?;
    if !answer.status.is_success() {
        let kind = answer
            .throttled()
            .unwrap_or(match answer.status.is_client_error() {
                true => ErrorKind::Unauthorized,
                false => ErrorKind::Unavailable,
            });
        let message = format!("{what} at {uri}: {}: check the credentials", answer.status);
        return Err(BackendError::new(kind, message));
    }
    let garbage =
        || BackendError::unavailable(format!("{what} at {uri}: the answer is not a token"));
    let token = answer
        .headers
        .get("x-subject-token")
        .and_then(|value| value.to_str().ok());
    let token = token.ok_or_else(garbage)?.to_owned();
    let found: Answer = serde_json::from_slice(&answer.body).map_err(|_| garbage())?;
    let endpoint = network(&found.token.catalog, auth).ok_or_else(|| {
        let region = auth.region.as_deref().unwrap_or("any region");
        let message = format!(
            "{what}: the catalog has no network service ({}, {region})",
            auth.interface
        );
        BackendError::new(ErrorKind::Unauthorized, message)
    })?;
    Ok(Session {
        endpoint,
        token: Some(token),
        expires: found.token.expires_at.parse().ok(),
    })
}

fn network(catalog: &[Service], auth: &Keystone) -> Option<String> {
    let services = catalog.iter().filter(|service| service.kind == "network");
    let mut endpoints = services.flat_map(|service| &service.endpoints);
    let wanted = auth.region.as_ref();
    let found = endpoints.find(|endpoint| {
        endpoint.interface == auth.interface
            && wanted.is_none_or(|region| endpoint.region.as_ref() == Some(region))
    });
    found.map(|endpoint| plain(&endpoint.url))
}

/// Strips the API version, which some clouds include in the endpoint.
fn plain(url: &str) -> String {
    let url = url.trim_end_matches('/');
    url.strip_suffix("/v2.0").unwrap_or(url).to_owned()
}

fn body(auth: &Keystone) -> Value {
    let identity = match &auth.identity {
        Identity::Password { user, password } => {
            let mut value = json!({"password": password});
            match user {
                Project::Id(id) => value["id"] = json!(id),
                Project::Name { name, domain } => {
                    value["name"] = json!(name);
                    value["domain"] = domain.json();
                }
            }
            json!({"methods": ["password"], "password": {"user": value}})
        }
        Identity::ApplicationCredential { id, secret } => json!({
            "methods": ["application_credential"],
            "application_credential": {"id": id, "secret": secret},
        }),
    };
    let mut request = json!({"auth": {"identity": identity}});
    // An application credential is for one project, and takes no scope.
    if let Some(project) = &auth.project {
        request["auth"]["scope"] = json!({"project": match project {
            Project::Id(id) => json!({"id": id}),
            Project::Name { name, domain } => json!({"name": name, "domain": domain.json()}),
        }});
    }
    request
}

#[cfg(test)]
mod tests {
    use super::super::settings::Domain;
    use super::*;

    #[test]
    fn a_password_is_sent_with_its_project() {
        let auth = Keystone {
            url: "http://k/v3".to_owned(),
            region: None,
            interface: "public".to_owned(),
            identity: Identity::Password {
                user: Project::Name {
                    name: "u".to_owned(),
                    domain: Domain::Name("Default".to_owned()),
                },
                password: "p".to_owned(),
            },
            project: Some(Project::Id("t".to_owned())),
        };
        let found = body(&auth);
        assert_eq!(
            found["auth"]["identity"]["password"]["user"]["domain"]["name"],
            "Default"
        );
        assert_eq!(found["auth"]["scope"]["project"]["id"], "t");
        assert!(!format!("{auth:?}").contains("\"p\""), "{auth:?}");
    }
}
