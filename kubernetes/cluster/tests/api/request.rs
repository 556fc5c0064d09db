//! Raw requests: what is sent is said byte by byte, what comes back is not interpreted.

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use kube::client::Body;
use serde_json::Value;

use crate::target::target;

#[derive(Clone)]
pub struct Request {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    unnamed: bool,
}

pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

fn request(method: Method, path: impl Into<String>) -> Request {
    Request {
        method,
        path: path.into(),
        headers: Vec::new(),
        body: Bytes::new(),
        unnamed: false,
    }
}

pub fn get(path: impl Into<String>) -> Request {
    request(Method::GET, path)
}

pub fn post(path: impl Into<String>) -> Request {
    request(Method::POST, path)
}

pub fn put(path: impl Into<String>) -> Request {
    request(Method::PUT, path)
}

pub fn patch(path: impl Into<String>) -> Request {
    request(Method::PATCH, path)
}

pub fn delete(path: impl Into<String>) -> Request {
    request(Method::DELETE, path)
}

impl Request {
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// A patch of one of the four types: `json`, `merge`, `strategic`, `apply`.
    pub fn of_type(self, kind: &str, body: &Value) -> Self {
        let content_type = match kind {
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            _ => "application/apply-patch+yaml",
        };
        self.body(content_type, body.to_string())
    }

    pub fn query(mut self, query: &str) -> Self {
        let mark = if self.path.contains('?') { '&' } else { '?' };
        self.path = format!("{}{mark}{query}", self.path);
        self
    }

    /// Sent without the credentials of the kubeconfig.
    pub fn unnamed(mut self) -> Self {
        self.unnamed = true;
        self
    }

    pub fn send(self) -> Answer {
        let mut builder = http::Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        let request = builder.body(Body::from(self.body)).unwrap();
        let client = if self.unnamed {
            &target().stranger
        } else {
            &target().client
        };
        target().runtime.block_on(async {
            let response = client.send(request).await.unwrap();
            let (parts, body) = response.into_parts();
            Answer {
                code: parts.status.as_u16(),
                headers: parts.headers,
                body: body.collect_bytes().await.unwrap(),
            }
        })
    }
}

impl Answer {
    /// The object, if the answer has this code.
    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.code, code, "{text}");
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The texts of `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        let values = self.headers.get_all(header::WARNING).iter();
        values
            .map(|value| {
                let text = value.to_str().unwrap();
                let quoted = text.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"'));
                quoted.unwrap_or(text).replace("\\\"", "\"")
            })
            .collect()
    }
}
