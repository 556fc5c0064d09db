//! The built page, in this program: `cargo run` needs no Node.js. `web/` has its sources.

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const HTML: &str = include_str!("../page/index.html");
const SCRIPT: &str = include_str!("../page/app.js");
const STYLE: &str = include_str!("../page/app.css");
const ICON: &str = include_str!("../page/icon.svg");

/// The page loads nothing from elsewhere, is not shown in frames, and submits no forms.
const POLICY: &str = "default-src 'none'; connect-src 'self'; img-src 'self'; script-src 'self'; \
                      style-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

pub fn router() -> Router {
    Router::new()
        .route("/", get(async || file("text/html; charset=utf-8", HTML)))
        .route("/app.js", get(async || file("text/javascript; charset=utf-8", SCRIPT)))
        .route("/app.css", get(async || file("text/css; charset=utf-8", STYLE)))
        .route("/icon.svg", get(async || file("image/svg+xml", ICON)))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        // The next version of the program has another page.
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, text).into_response()
}
