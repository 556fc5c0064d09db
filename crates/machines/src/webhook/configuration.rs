//! Where an API server finds the webhook, and how it is configured. Pure.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::NAME;
use super::router::PATH;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Reachable from any API server, also that of another cluster.
    Url(Uri),
    /// In the API server's own cluster.
    Service { namespace: String, name: String, port: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error(
        "{0:?} is not a URL that an API server calls: write it like https://berth.example:9443"
    )]
    Url(String),
    #[error(
        "{0:?} names no Service: write it like kube-system/berth-webhook or \
         kube-system/berth-webhook:9443"
    )]
    Service(String),
}

impl Endpoint {
    pub fn url(text: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Url(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        if uri.scheme_str() != Some("https") || !has_host || uri.query().is_some() {
            return Err(wrong());
        }
        if !matches!(uri.path(), "" | "/" | PATH) {
            return Err(wrong());
        }
        Ok(Self::Url(uri))
    }

    pub fn service(text: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Service(text.to_owned());
        let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, u16::from_str(port).map_err(|_| wrong())?),
            None => (rest, 443),
        };
        let is_name = |name: &str| {
            let good =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !name.is_empty() && name.len() <= 63 && name.bytes().all(good)
        };
        if !is_name(namespace) || !is_name(name) || port == 0 {
            return Err(wrong());
        }
        Ok(Self::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        })
    }

    /// The names that the certificate must have.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Url(uri) => {
                let host = uri.host().unwrap_or_default();
                vec![host.trim_matches(['[', ']']).to_owned()]
            }
            Self::Service { namespace, name, .. } => vec![format!("{name}.{namespace}.svc")],
        }
    }

    fn client_config(&self) -> Value {
        match self {
            Self::Url(uri) => {
                let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
                json!({"url": format!("https://{authority}{PATH}")})
            }
            Self::Service { namespace, name, port } => json!({
                "service": {"namespace": namespace, "name": name, "port": port, "path": PATH},
            }),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(uri) => uri.fmt(out),
            Self::Service { namespace, name, port } => {
                write!(out, "Service {namespace}/{name}:{port}")
            }
        }
    }
}

/// The configuration for a cluster that has Machines. While nobody answers, no Machine is created.
pub fn configuration(endpoint: &Endpoint, authorities: &str) -> Value {
    let mut client_config = endpoint.client_config();
    client_config["caBundle"] = BASE64_STANDARD.encode(authorities).into();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [{
            "name": "gate.machines.berth.dev",
            "clientConfig": client_config,
            "rules": [{
                "apiGroups": ["machine.k8s.io", "cluster.k8s.io"],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE"],
                "resources": ["machines"],
                "scope": "*",
            }],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_or_a_service() {
        let url = Endpoint::url("https://berth.example:9443").unwrap();
        assert_eq!(url.client_config(), json!({"url": "https://berth.example:9443/gate"}));
        assert_eq!(url.names(), ["berth.example"]);
        let six = Endpoint::url("https://[fd00::1]:9443/gate").unwrap();
        assert_eq!(six.names(), ["fd00::1"]);
        let service = Endpoint::service("kube-system/berth-webhook:9443").unwrap();
        assert_eq!(service.names(), ["berth-webhook.kube-system.svc"]);
        assert_eq!(service.client_config()["service"]["port"], 9443);
        let service = Endpoint::service("kube-system/berth-webhook").unwrap();
        assert_eq!(service.client_config()["service"]["port"], 443);
    }

    #[test]
    fn what_no_api_server_could_call_is_refused() {
        for bad in ["", "http://a", "https://", "a.b", "https://a/b", "https://a/?x"] {
            assert_eq!(Endpoint::url(bad), Err(EndpointError::Url(bad.to_owned())));
        }
        for bad in ["", "a", "/a", "a/", "a/b:", "a/b:0", "a/b:x", "A/b", "a/b/c"] {
            assert_eq!(Endpoint::service(bad), Err(EndpointError::Service(bad.to_owned())));
        }
    }

    #[test]
    fn no_machine_is_created_while_nobody_answers() {
        let endpoint = Endpoint::url("https://a").unwrap();
        let written = configuration(&endpoint, "PEM");
        let webhook = &written["webhooks"][0];
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(webhook["clientConfig"]["caBundle"], "UEVN");
    }
}
