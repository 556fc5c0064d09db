//! What the loops share for their writes.

/// How many writes a loop has under way at a time.
pub const CONCURRENCY: usize = 32;

/// Whether the object is gone, or has changed since the write was decided on. The next watch event
/// leads to a new decision.
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 || status.code == 409)
}
