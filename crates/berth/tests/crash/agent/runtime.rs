//! What a container runtime says of its sandboxes, where the test is the runtime: the two calls of
//! `runtime.v1` that an agent makes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde_json::{Value, json};
use tokio::net::UnixListener;

/// The sandboxes that are there, and their addresses.
#[derive(Clone, Default)]
pub struct Living {
    sandboxes: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    others: Arc<Mutex<Others>>,
}

/// Addresses by container and interface.
type Others = BTreeMap<(String, String), Vec<String>>;

impl Living {
    pub fn add(&self, container: &str, addresses: &[String]) {
        let bare = |address: &String| address.split('/').next().unwrap().to_owned();
        let addresses = addresses.iter().map(bare).collect();
        self.lock().insert(container.to_owned(), addresses);
    }

    /// Another interface of a container that is there, as containerd tells it beyond the CRI.
    #[allow(dead_code, reason = "one of two programs needs it")]
    pub fn add_interface(&self, container: &str, interface: &str, addresses: &[String]) {
        let bare = |address: &String| address.split('/').next().unwrap().to_owned();
        let addresses: Vec<String> = addresses.iter().map(bare).collect();
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.insert((container.to_owned(), interface.to_owned()), addresses);
    }

    pub fn remove(&self, container: &str) {
        self.lock().remove(container);
    }

    pub fn containers(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<String>>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, repeated, tag = "1")]
    items: Vec<Sandbox>,
}

#[derive(Clone, PartialEq, Message)]
struct Sandbox {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, optional, tag = "2")]
    metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

#[derive(Clone, PartialEq, Message)]
struct Ask {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    status: Option<Status>,
    #[prost(btree_map = "string, string", tag = "2")]
    info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(message, optional, tag = "5")]
    network: Option<Network>,
}

#[derive(Clone, PartialEq, Message)]
struct Network {
    #[prost(string, tag = "1")]
    ip: String,
}

pub fn serve(socket: &Path, living: Living) {
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let living = living.clone();
            let service = service_fn(move |request| answer(request, living.clone()));
            tokio::spawn(
                http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
}

type Body =
    StreamBody<futures::stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>;

async fn answer(request: Request<Incoming>, living: Living) -> Result<Response<Body>, Infallible> {
    let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    // A byte for compression and four for the length come before every message.
    let message = body.get(5..).unwrap_or_default();
    let answer = match method.as_str() {
        "ListPodSandbox" => list(&living).encode_to_vec(),
        "PodSandboxStatus" => status(&living, &Ask::decode(message).unwrap().id).encode_to_vec(),
        other => panic!("nobody answers {other}"),
    };
    let mut framed = vec![0];
    framed.extend(u32::try_from(answer.len()).unwrap().to_be_bytes());
    framed.extend(answer);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [Ok(Frame::data(Bytes::from(framed))), Ok(Frame::trailers(trailers))];
    let body = StreamBody::new(futures::stream::iter(frames));
    Ok(Response::builder()
        .header("content-type", "application/grpc")
        .body(body)
        .unwrap())
}

fn list(living: &Living) -> List {
    let sandbox = |id: String| Sandbox {
        metadata: Some(Metadata {
            name: id.clone(),
            uid: format!("u-{id}"),
            namespace: "default".to_owned(),
        }),
        id,
    };
    let items = living.containers().into_iter().map(sandbox).collect();
    List { items }
}

fn status(living: &Living, id: &str) -> Answer {
    let ip = living.lock().get(id).and_then(|addresses| addresses.first().cloned());
    let network = ip.map(|ip| Network { ip });
    let others = living.others.lock().unwrap_or_else(PoisonError::into_inner);
    let of_it = others.iter().filter(|((container, _), _)| container == id);
    let interfaces: serde_json::Map<String, Value> = of_it
        .map(|((_, interface), addresses)| {
            let configs: Vec<Value> =
                addresses.iter().map(|address| json!({"IP": address})).collect();
            (interface.clone(), json!({"IPConfigs": configs}))
        })
        .collect();
    let info = json!({"cniResult": {"Interfaces": interfaces}}).to_string();
    Answer {
        status: Some(Status { network }),
        info: BTreeMap::from([("info".to_owned(), info)]),
    }
}
