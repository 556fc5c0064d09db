//! What a Kubernetes API server knows about objects before it stores any: their shapes, the schemas
//! of custom resources with their CEL rules, patches, selectors, protobuf bodies, columns, and the
//! statuses that refuse a request.
//!
//! Everything here is a pure function over JSON values: no I/O, no async, no clock, no store. What
//! is special about a built-in kind is not here but in the API server, in one file for each kind.

pub mod columns;
pub mod conversion;
pub mod definition;
mod duration;
mod json_path;
pub mod metadata;
pub mod names;
pub mod openapi_v2;
pub mod openapi_v3;
pub mod patch;
pub mod protobuf;
mod release;
pub mod schema;
pub mod selectors;
pub mod shape;
pub mod status;
mod trail;
pub mod version_order;

pub use release::GIT_VERSION;
