//! The Kubernetes release.

/// The release whose API is served.
pub const GIT_VERSION: &str = "v1.36.4+berth";
