//! What a Kubernetes API server knows about objects before it stores any: their shapes, the schemas
//! of custom resources with their CEL rules, patches, selectors, protobuf bodies, and the statuses
//! that refuse a request.
//!
//! Everything here is a pure function over JSON values: no I/O, no async, no clock, no store. What
//! is special about a built-in kind is not here but in the API server, in one file for each kind.

pub mod definition;
mod duration;
pub mod names;
pub mod patch;
pub mod protobuf;
pub mod schema;
pub mod selectors;
pub mod shape;
pub mod status;
mod trail;

/// The release of Kubernetes whose API this is.
pub const GIT_VERSION: &str = "v1.36.4+berth";
