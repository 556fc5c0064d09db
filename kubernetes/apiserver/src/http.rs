//! The API over HTTP: turns a request into an operation, and its outcome into an answer.

mod answer;
pub(crate) use answer::failure;
mod body;
mod call;
mod list;
mod params;
mod path;
mod proxy;
mod review;
mod step;
mod watch;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use berth_apimachinery::status::{Result, Status};
use http::Method;

use crate::kinds::Kind;
use crate::openapi::v2::Encoding;
use crate::{discovery, openapi};

use answer::{Form, json};
use call::Call;
pub use call::Front;
use params::Params;
use path::Target;

/// One handler answers every path, because the set of resources is data, not routes.
pub fn router(front: Arc<Front>) -> Router {
    Router::new().fallback(handle).with_state(front)
}

async fn handle(State(front): State<Arc<Front>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    match route(&front, request).await {
        Ok(response) => response,
        Err(status) if status == Status::no_such_path() && !is_known(&front, &path) => {
            answer::text(404, "404 page not found\n")
        }
        Err(status) => answer::failure(&status),
    }
}

/// Whether an unknown path is below a built-in group. Such a path gets a Status, any other a plain
/// 404 page.
fn is_known(front: &Front, path: &str) -> bool {
    let mut segments = path.split('/').filter(|part| !part.is_empty());
    match (segments.next(), segments.next()) {
        (Some("api"), _) => true,
        (Some("apis"), Some(group)) => front.resources.registry.has_built_in(group),
        _ => false,
    }
}

async fn route(front: &Arc<Front>, request: Request) -> Result<Response> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match segments.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Ok(answer::text(200, "ok")),
        ["version"] => Ok(json(200, &discovery::version())),
        [] => Ok(json(200, &discovery::paths(&front.resources.registry.kinds()))),
        ["openapi", "v2"] => openapi_v2(front, &request),
        ["openapi", "v3", rest @ ..] => openapi_v3(front, rest),
        ["api"] | ["apis"] | ["api", _] | ["apis", _] | ["apis", _, _] => {
            discover(front, &segments, &request)
        }
        ["api", "v1", "nodes", target, "proxy", rest @ ..] => {
            proxy::to_node(front, target, &rest.join("/"), request).await
        }
        _ => resource(front, &segments, request).await,
    }
}

fn discover(front: &Front, segments: &[&str], request: &Request) -> Result<Response> {
    let kinds = front.resources.registry.kinds();
    if request.method() != Method::GET {
        return Err(Status::no_such_path());
    }
    let accept = answer::accept(request.headers());
    let found = match segments {
        [root] if accept.contains("as=APIGroupDiscoveryList") => {
            let document = discovery::aggregated(&kinds, *root == "api");
            return Ok(answer::typed(200, document.to_string().into(), discovery::AGGREGATED));
        }
        ["api"] => Some(discovery::core_versions(address(request))),
        ["apis"] => Some(discovery::group_list(&kinds)),
        ["api", version] => discovery::resources(&kinds, "", version),
        ["apis", group] => discovery::group(&kinds, group),
        ["apis", group, version] => discovery::resources(&kinds, group, version),
        _ => None,
    };
    found.map(|found| json(200, &found)).ok_or_else(Status::no_such_path)
}

/// The server's address as the client used it.
fn address(request: &Request) -> &str {
    let host = request
        .headers()
        .get(http::header::HOST)
        .and_then(|value| value.to_str().ok());
    host.or_else(|| request.uri().authority().map(|a| a.as_str()))
        .unwrap_or("localhost")
}

fn openapi_v3(front: &Front, rest: &[&str]) -> Result<Response> {
    let bytes = front.document(&rest.join("/"), |kinds| {
        let document = match rest {
            [] => Some(openapi::index(kinds)),
            ["api", version] => openapi::document("", version, kinds),
            ["apis", group, version] => openapi::document(group, version, kinds),
            _ => None,
        };
        document.map(|document| document.to_string().into())
    });
    Ok(answer::typed(200, bytes?, answer::JSON))
}

/// OpenAPI v2: all groups in one document.
fn openapi_v2(front: &Front, request: &Request) -> Result<Response> {
    let encoding = Encoding::negotiate(answer::accept(request.headers()));
    let encoding = encoding.ok_or_else(|| Status::not_acceptable(answer::JSON))?;
    let content_type = encoding.content_type();
    let make = |kinds: &[Arc<Kind>]| Some(openapi::v2::encoded(kinds, encoding));
    let bytes = front.document(content_type, make)?;
    Ok(answer::typed(200, bytes, content_type))
}

async fn resource(front: &Arc<Front>, segments: &[&str], request: Request) -> Result<Response> {
    let target = Target::parse(segments).ok_or_else(Status::no_such_path)?;
    let (parts, body) = request.into_parts();
    let params = Params::parse(&parts.uri)?;
    if let Some(review) = review::find(&target) {
        return review::answer(front, review, &parts, body).await;
    }
    let registry = &front.resources.registry;
    let kind = registry
        .find(&target.group, &target.version, &target.resource)
        .filter(|kind| kind.namespaced || target.namespace.is_none())
        .ok_or_else(Status::no_such_path)?;
    let form = Form::negotiate(&parts.headers, &params)?;
    let call = Call {
        kind,
        target,
        params,
        form,
        method: parts.method,
        headers: parts.headers,
    };
    dispatch(front, call, body).await
}

async fn dispatch(front: &Arc<Front>, call: Call, body: Body) -> Result<Response> {
    let subresource = call.target.subresource.as_str();
    if !is_served(&call.kind, subresource) {
        return Err(Status::no_such_path());
    }
    let named = !call.target.name.is_empty();
    if call.kind.namespaced && call.target.namespace.is_none() {
        // Across all namespaces, only reads are allowed.
        if named {
            return Err(Status::no_such_path());
        }
        if call.method != Method::GET {
            return Err(if call.kind.is_custom() {
                Status::no_such_path()
            } else {
                Status::method_not_allowed()
            });
        }
    }
    match (call.method.as_str(), named, subresource) {
        ("GET", false, "") if call.params.watch => watch::watch(front, &call),
        ("GET", false, "") => list::list(front, &call),
        ("GET", true, "" | "status") => list::get(front, &call),
        ("GET", true, "scale") => list::scale(front, &call),
        ("POST", false, "") => write::create(front, &call, body).await,
        ("POST", true, "binding") => write::bind(front, &call, body).await,
        ("POST", true, "eviction") => write::evict(front, &call, body).await,
        ("PUT", true, "scale") => write::set_scale(front, &call, body).await,
        ("PATCH", true, "scale") => write::patch_scale(front, &call, body).await,
        ("PUT", true, "finalize") => write::finalize(front, &call, body).await,
        ("PUT", true, "" | "status") => write::update(front, &call, body).await,
        ("PATCH", true, "" | "status") => write::patch(front, &call, body).await,
        ("DELETE", true, "") => write::delete(front, &call, body).await,
        ("DELETE", false, "") => write::delete_all(front, &call, body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

fn is_served(kind: &Kind, subresource: &str) -> bool {
    subresource.is_empty() || kind.subresources().iter().any(|sub| sub.name == subresource)
}
