//! The dashboard's server with an API server of its own.

use axum::Router;
use axum::body::Body;
use berth_apiserver::Server;
use berth_dashboard::state::About;
use berth_dashboard::{Agents, Dashboard, Options, WriteToken};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

pub const TOKEN: &str = "the-token-of-this-test";

pub struct Scene {
    pub client: Client,
    pub dashboard: Dashboard,
    router: Router,
    _server: Server,
    _stop: DropGuard,
}

impl Scene {
    pub async fn start(has_crds: bool) -> Self {
        let server = Server::open(berth_apiserver::Options::default()).await.unwrap();
        let client = server.client();
        if has_crds {
            define(&client).await;
        }
        let stop = CancellationToken::new();
        let options = Options {
            client: client.clone(),
            about: About::new("test".into(), None, false),
            agents: Agents::Unknown,
            token: WriteToken::new(TOKEN).unwrap(),
            token_hint: "it is in the test".into(),
        };
        let dashboard = Dashboard::new(options, stop.clone());
        let router = dashboard.router(Router::new());
        tokio::spawn(dashboard.clone().run());
        Self {
            client,
            dashboard,
            router,
            _server: server,
            _stop: stop.drop_guard(),
        }
    }

    pub async fn ask(&self, path: &str) -> (StatusCode, Value) {
        let (status, text) = self.request("GET", path, "localhost:7480").await;
        (status, serde_json::from_str(&text).unwrap())
    }

    pub async fn request(&self, method: &str, path: &str, host: &str) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path).header("Host", host);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub async fn send(&self, request: Request<Body>) -> (StatusCode, String) {
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Reads states from the stream until `is` accepts one.
    pub async fn until(&self, is: impl Fn(&Value) -> bool) -> Value {
        let request = Request::get("/api/stream").header("Host", "127.0.0.1");
        let request = request.body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut body = answer.into_body();
        let mut text = String::new();
        loop {
            let frame = body.frame().await.expect("the stream does not end").unwrap();
            text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            while let Some((event, rest)) = text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let state = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
                let rest = rest.to_owned();
                if let Some(state) = state.filter(|state| is(state)) {
                    return state;
                }
                text = rest;
            }
        }
    }
}

async fn define(client: &Client) {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let machines = berth_api::crds::machines::all().unwrap();
    for crd in berth_api::crds::all().into_iter().chain(machines) {
        api.create(&PostParams::default(), &crd).await.unwrap();
        let established = conditions::is_crd_established();
        await_condition(api.clone(), &crd.name_any(), established)
            .await
            .unwrap();
    }
}
