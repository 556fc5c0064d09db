//! AWS keys. They are never logged: their `Debug` is empty.

use std::fmt;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::Deserialize;

use super::query::{CONTENT_TYPE, form, read};
use super::settings::{Source, WebIdentity};
use crate::backend::http::{Http, request};
use crate::backend::ini::Ini;
use crate::backend::{BackendError, ErrorKind};

const STS_VERSION: &str = "2011-06-15";
/// Keys are renewed this long before they expire.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_mins(5);

#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
    pub expires: Option<Timestamp>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Keys {
    source: Source,
    http: Http,
    known: Mutex<Option<Credentials>>,
    /// One asks at a time; the others wait for the answer.
    asking: tokio::sync::Mutex<()>,
}

/// The keys of an instance's role, as the metadata service sends them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Role {
    access_key_id: String,
    secret_access_key: String,
    token: String,
    expiration: String,
}

impl Keys {
    pub fn new(source: Source, http: Http) -> Self {
        Self {
            source,
            http,
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    pub async fn get(&self) -> Result<Credentials, BackendError> {
        if let Some(keys) = self.valid() {
            return Ok(keys);
        }
        let _asking = self.asking.lock().await;
        if let Some(keys) = self.valid() {
            return Ok(keys);
        }
        let keys = match &self.source {
            Source::Environment => from_environment()?,
            Source::File { path, profile } => from_file(path, profile)?,
            Source::WebIdentity(identity) => self.of_web_identity(identity).await?,
            Source::Instance { endpoint } => self.of_instance(endpoint).await?,
        };
        *self.known.lock() = Some(keys.clone());
        Ok(keys)
    }

    /// The known keys, unless they expire soon.
    fn valid(&self) -> Option<Credentials> {
        let is_valid = |keys: &Credentials| {
            keys.expires
                .is_none_or(|end| end - RENEW_BEFORE > Timestamp::now())
        };
        self.known.lock().clone().filter(is_valid)
    }

    /// AWS refused the keys: they are read again at the next call, as they may have changed.
    pub fn invalidate(&self) {
        *self.known.lock() = None;
    }

    /// The call is not signed: the token is its only proof.
    async fn of_web_identity(&self, identity: &WebIdentity) -> Result<Credentials, BackendError> {
        let action = "AssumeRoleWithWebIdentity";
        let file = identity.token_file.display();
        let token = std::fs::read_to_string(&identity.token_file).map_err(|error| {
            let message = format!("AWS_WEB_IDENTITY_TOKEN_FILE: {file}: {error}");
            BackendError::new(ErrorKind::Unauthorized, message)
        })?;
        let parameters = [
            ("RoleArn", identity.role.as_str()),
            ("RoleSessionName", identity.session.as_str()),
            ("WebIdentityToken", token.trim()),
        ];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let body = form(action, STS_VERSION, &parameters);
        let uri = format!("{}/", identity.endpoint);
        let headers = [("content-type", CONTENT_TYPE)];
        let request = request(action, Method::POST, &uri, &headers, body)?;
        let answer = read(action, &self.http.call(action, request).await?)?;
        let garbage =
            || BackendError::unavailable(format!("{action}: the answer has no credentials"));
        let keys = answer.find("Credentials").ok_or_else(garbage)?;
        let need = |name: &str| {
            let value = Some(keys.text(name)).filter(|value| !value.is_empty());
            value.map(ToOwned::to_owned).ok_or_else(garbage)
        };
        Ok(Credentials {
            access_key_id: need("AccessKeyId")?,
            secret_access_key: need("SecretAccessKey")?,
            session_token: Some(need("SessionToken")?),
            expires: keys.text("Expiration").parse().ok(),
        })
    }

    /// Uses version 2 of the metadata service, which needs a token first.
    async fn of_instance(&self, endpoint: &str) -> Result<Credentials, BackendError> {
        let what = "the instance's role";
        let ask = async |method: Method, path: &str, header: (&str, &str)| {
            let uri = format!("{endpoint}/latest/{path}");
            let answer = self
                .http
                .call(what, request(what, method, &uri, &[header], "")?)
                .await?;
            if answer.status.is_success() {
                Ok(answer.text())
            } else {
                let message = format!(
                    "{what}: {} for {path}: give the instance a role",
                    answer.status
                );
                Err(BackendError::new(ErrorKind::Unauthorized, message))
            }
        };
        let ttl = ("x-aws-ec2-metadata-token-ttl-seconds", "300");
        let token = ask(Method::PUT, "api/token", ttl).await?;
        let header = ("x-aws-ec2-metadata-token", token.as_str());
        let list = "meta-data/iam/security-credentials/";
        let role = ask(Method::GET, list, header).await?;
        let keys = ask(Method::GET, &format!("{list}{}", role.trim()), header).await?;
        let keys: Role = serde_json::from_str(&keys).map_err(|_| {
            BackendError::unavailable(format!(
                "{what}: the answer of the metadata service can't be decoded"
            ))
        })?;
        Ok(Credentials {
            access_key_id: keys.access_key_id,
            secret_access_key: keys.secret_access_key,
            session_token: Some(keys.token),
            expires: keys.expiration.parse().ok(),
        })
    }
}

fn from_environment() -> Result<Credentials, BackendError> {
    let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let need = |name: &str| {
        let missing = || BackendError::new(ErrorKind::Unauthorized, format!("{name} is not set"));
        get(name).ok_or_else(missing)
    };
    Ok(Credentials {
        access_key_id: need("AWS_ACCESS_KEY_ID")?,
        secret_access_key: need("AWS_SECRET_ACCESS_KEY")?,
        session_token: get("AWS_SESSION_TOKEN"),
        expires: None,
    })
}

fn from_file(path: &std::path::Path, profile: &str) -> Result<Credentials, BackendError> {
    let shown = path.display();
    let refused = |message: String| BackendError::new(ErrorKind::Unauthorized, message);
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| refused(format!("{shown}: {error}")))?;
    let ini = Ini::parse(&text).map_err(|error| refused(format!("{shown}: {error}")))?;
    let need = |key: &str| {
        let value = ini.get(profile, key).map(ToOwned::to_owned);
        value.ok_or_else(|| refused(format!("{shown}: profile {profile} has no {key}")))
    };
    Ok(Credentials {
        access_key_id: need("aws_access_key_id")?,
        secret_access_key: need("aws_secret_access_key")?,
        session_token: ini.get(profile, "aws_session_token").map(ToOwned::to_owned),
        expires: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown() {
        let keys = Credentials {
            access_key_id: "AKID".to_owned(),
            secret_access_key: "secret".to_owned(),
            session_token: Some("token".to_owned()),
            expires: None,
        };
        let shown = format!("{keys:?}");
        assert!(
            !["AKID", "secret", "token"]
                .iter()
                .any(|part| shown.contains(part)),
            "{shown}"
        );
    }

    #[test]
    fn a_profile_is_read_and_a_missing_one_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "[default]\naws_access_key_id = a\naws_secret_access_key = b/c+d=\n";
        std::fs::write(file.path(), text).unwrap();
        assert_eq!(
            from_file(file.path(), "default").unwrap().secret_access_key,
            "b/c+d="
        );
        let error = from_file(file.path(), "other").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        assert!(error.message.contains("profile other has no"), "{error}");
    }
}
