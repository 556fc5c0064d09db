//! Just enough of an API server: objects by path; create, get, replace with resourceVersion, merge
//! patch. A request that has arrived is carried out even when its sender no longer waits, as with a
//! real one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, client::Body, core::Status};
use serde_json::{Value, json};

#[derive(Clone, Default)]
pub struct Server {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<String, Value>,
}

/// What happens to one request on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    /// The time until it arrives.
    pub delay: Duration,
    /// It never arrives.
    pub refused: bool,
    /// It is carried out, but the sender gets an error.
    pub answer_lost: bool,
    /// The time until the answer arrives.
    pub answer_delay: Duration,
}

impl Server {
    /// A client whose every request goes through `fault`.
    pub fn client(&self, fault: impl FnMut() -> Fault + Send + 'static) -> Client {
        let (server, fault) = (self.clone(), Arc::new(Mutex::new(fault)));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, fault) = (server.clone(), (fault.lock().unwrap())());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                if fault.refused {
                    return Err(std::io::Error::other("connection refused"));
                }
                let answer = tokio::spawn(async move {
                    tokio::time::sleep(fault.delay).await;
                    let body = serde_json::from_slice(&body).unwrap_or_default();
                    server.handle(&head.method, head.uri.path(), body)
                })
                .await
                .unwrap();
                tokio::time::sleep(fault.answer_delay).await;
                if fault.answer_lost {
                    return Err(std::io::Error::other("connection reset"));
                }
                Ok(answer)
            }
        });
        Client::new(service, "default")
    }

    pub fn reliable(&self) -> Client {
        self.client(Fault::default)
    }

    pub fn object(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(path).cloned()
    }

    pub fn objects(&self) -> Vec<Value> {
        self.state.lock().unwrap().objects.values().cloned().collect()
    }

    pub fn delete_all(&self) {
        self.state.lock().unwrap().objects.clear();
    }

    fn handle(&self, method: &Method, path: &str, body: Value) -> Response<Body> {
        let mut state = self.state.lock().unwrap();
        let path = match (method, body["metadata"]["name"].as_str()) {
            (&Method::POST, Some(name)) => format!("{path}/{name}"),
            _ => path.to_owned(),
        };
        let stored = state.objects.get(&path).cloned();
        let written = match (method, stored) {
            (&Method::GET, Some(stored)) => return answer(StatusCode::OK, &stored),
            (&Method::POST, Some(_)) => {
                return refuse(StatusCode::CONFLICT, "AlreadyExists", &path);
            }
            (&Method::POST, None) => body,
            (_, None) => return refuse(StatusCode::NOT_FOUND, "NotFound", &path),
            (&Method::PUT, Some(stored)) => {
                let version = &body["metadata"]["resourceVersion"];
                assert!(version.is_string(), "a write without resourceVersion: {body}");
                if *version != stored["metadata"]["resourceVersion"] {
                    return refuse(StatusCode::CONFLICT, "Conflict", &path);
                }
                body
            }
            (_, Some(mut stored)) => {
                merge(&mut stored, body);
                stored
            }
        };
        state.store(path, written)
    }
}

impl State {
    fn store(&mut self, path: String, mut object: Value) -> Response<Body> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path, object.clone());
        answer(StatusCode::OK, &object)
    }
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    for (key, value) in patch {
        merge(&mut target[key], value);
    }
}

fn refuse(code: StatusCode, reason: &str, path: &str) -> Response<Body> {
    let status = Status::failure(path, reason).with_code(code.as_u16());
    answer(code, &serde_json::to_value(status).unwrap())
}

fn answer(code: StatusCode, body: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(code).body(body).unwrap()
}
