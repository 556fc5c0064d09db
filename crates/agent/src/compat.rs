//! CNS's REST API over our agent, so that plugins made for CNS work unmodified. Only served when a
//! flag asks for it.
//!
//! The API does not authenticate: every process that reaches the port can take addresses and
//! release those of others. So it is bound to loopback addresses alone.

mod debug;
mod listen;

use std::net::IpAddr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use berth_api::agent::{Granted, GrantedAddress, MAX_BYTES, Reason, Refusal, Release, Request};
use berth_api::cni::{Attachment, InvalidAttachment, PodRef};
use berth_api::cns::{
    self, CODE_HEADER, Code, IpConfigResponse, IpConfigsRequest, IpConfigsResponse, NotAContext,
    Outcome, PodIpInfo, Released, Undecodable,
};
use serde::Serialize;

use crate::agent::Agent;

pub use listen::{CompatError, Listener};

/// The interface of a request that names none.
const INTERFACE: &str = "eth0";

pub fn router(agent: Agent) -> Router {
    Router::new()
        .route(cns::REQUEST, post(request))
        .route(cns::RELEASE, post(release))
        .route(cns::REQUEST_ONE, post(request_one))
        .route(cns::RELEASE_ONE, post(release_one))
        // CNS's own client posts its filter.
        .route(cns::IP_ADDRESSES, get(debug::ip_addresses).post(debug::ip_addresses))
        .route(cns::POD_CONTEXT, get(debug::pod_context))
        .route(cns::REST_DATA, get(debug::rest_data))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .with_state(agent)
}

async fn request(State(agent): State<Agent>, body: Bytes) -> Result<Response, NotDecoded> {
    let request = IpConfigsRequest::read(&body)?;
    let (pod_ip_info, response) = match grant(&agent, &request).await {
        Ok(granted) => (granted.addresses.iter().map(info).collect(), Outcome::default()),
        Err(outcome) => (Vec::new(), outcome),
    };
    let code = response.return_code;
    Ok(answer(code, &IpConfigsResponse { pod_ip_info, response }))
}

async fn request_one(State(agent): State<Agent>, body: Bytes) -> Result<Response, NotDecoded> {
    let request = IpConfigsRequest::read_one(&body)?;
    let (pod_ip_info, response) = match grant_one(&agent, &request).await {
        Ok(granted) => (info(&granted), Outcome::default()),
        Err(outcome) => (PodIpInfo::default(), outcome),
    };
    let code = response.return_code;
    Ok(answer(code, &IpConfigResponse { pod_ip_info, response }))
}

async fn release(State(agent): State<Agent>, body: Bytes) -> Result<Response, NotDecoded> {
    Ok(take_back(&agent, &IpConfigsRequest::read(&body)?))
}

async fn release_one(State(agent): State<Agent>, body: Bytes) -> Result<Response, NotDecoded> {
    Ok(take_back(&agent, &IpConfigsRequest::read_one(&body)?))
}

async fn grant(agent: &Agent, request: &IpConfigsRequest) -> Result<Granted, Outcome> {
    let (attachment, pod) = attachment_and_pod(request)?;
    let desired = request.desired.iter().filter(|address| !address.is_empty());
    let desired: Result<Vec<IpAddr>, Outcome> = desired.map(|address| parse(address)).collect();
    let request = Request {
        attachment,
        network: String::new(),
        pod,
        // Plugins of this kind open a connection for each call, and those are served in the order
        // in which they come.
        started: agent.now(),
        desired: desired?,
        wait_ms: 0,
    };
    let granted = agent.request(request).await.map_err(outcome)?;
    if granted.addresses.is_empty() {
        // Success without an address would make a pod without one.
        return Err(Outcome::failure(Code::FailedToAllocate, "no address is free"));
    }
    Ok(granted)
}

/// A request for one address must not keep a second one: it is refused if pods get two.
async fn grant_one(agent: &Agent, request: &IpConfigsRequest) -> Result<GrantedAddress, Outcome> {
    let (attachment, _) = attachment_and_pod(request)?;
    let is_known = agent.holdings().contains_key(&attachment);
    let granted = grant(agent, request).await?;
    if let [only] = granted.addresses.as_slice() {
        return Ok(only.clone());
    }
    if !is_known {
        let started = agent.now();
        agent.release(&Release { attachment, started }).map_err(outcome)?;
    }
    let message = format!(
        "pods of this node get two addresses: use {} and {}",
        cns::REQUEST,
        cns::RELEASE
    );
    Err(Outcome::failure(Code::InvalidRequest, message))
}

fn take_back(agent: &Agent, request: &IpConfigsRequest) -> Response {
    let taken = attachment_and_pod(request).and_then(|(attachment, _)| {
        let started = agent.now();
        agent.release(&Release { attachment, started }).map_err(outcome)
    });
    let outcome = taken.err().unwrap_or_default();
    let code = outcome.return_code;
    answer(code, &Released::from(outcome))
}

/// The attachment and the pod that a request is about.
fn attachment_and_pod(request: &IpConfigsRequest) -> Result<(Attachment, PodRef), Outcome> {
    let context = request.context().map_err(|error| {
        let code = match error {
            NotAContext::Missing => Code::EmptyContext,
            NotAContext::Unreadable(_) => Code::UnsupportedContext,
        };
        Outcome::failure(code, error.to_string())
    })?;
    let pod = PodRef {
        namespace: context.pod_namespace,
        name: context.pod_name,
        uid: String::new(),
    };
    if !pod.is_valid() {
        let message = "orchestratorContext names a pod as Kubernetes names none: use letters, \
                       digits, '-' and '.'";
        return Err(Outcome::failure(Code::UnsupportedContext, message));
    }
    if request.has_secondary_interfaces || request.has_backend_interface {
        let message = "secondaryInterfacesExist, BackendInterfaceExist: this agent has addresses \
                       for a pod's own interface only";
        return Err(Outcome::failure(Code::UnsupportedApi, message));
    }
    let interface = if request.ifname.is_empty() {
        INTERFACE
    } else {
        &request.ifname
    };
    let attachment = Attachment::new(&request.pod_interface, interface).map_err(|error| {
        let field = match error {
            InvalidAttachment::Container(_) => "podInterfaceID",
            InvalidAttachment::Interface(_) => "ifname",
        };
        Outcome::failure(Code::InvalidRequest, format!("{field} {error}"))
    })?;
    Ok((attachment, pod))
}

fn parse(address: &str) -> Result<IpAddr, Outcome> {
    let wrong = |_| {
        Outcome::failure(
            Code::InvalidRequest,
            format!("desiredIPAddresses has {address:?}, which is not an address"),
        )
    };
    address.parse().map_err(wrong)
}

fn info(granted: &GrantedAddress) -> PodIpInfo {
    PodIpInfo::new(granted.address, granted.length, granted.gateway)
}

fn outcome(refusal: Refusal) -> Outcome {
    let code = match refusal.reason {
        Reason::Invalid => Code::InvalidRequest,
        // The plugin fails on this code, and its runtime tries again.
        Reason::PoolEmpty | Reason::Taken | Reason::Detached => Code::FailedToAllocate,
        Reason::Forbidden | Reason::NotFound | Reason::Mismatch | Reason::Storage => {
            Code::Unexpected
        }
    };
    Outcome::failure(code, refusal.message)
}

/// With status 200, whatever the code is.
fn answer(code: Code, document: &impl Serialize) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json; charset=UTF-8"),
        (HeaderName::from_static(CODE_HEADER), code.name()),
    ];
    match serde_json::to_vec(document) {
        Ok(body) => (headers, body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Why a body is not a request.
struct NotDecoded(Undecodable);

impl From<Undecodable> for NotDecoded {
    fn from(undecodable: Undecodable) -> Self {
        Self(undecodable)
    }
}

impl IntoResponse for NotDecoded {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, format!("{}\n", self.0)).into_response()
    }
}
