//! How loops write.

/// How many writes a loop has under way at a time.
pub const CONCURRENCY: usize = 32;

/// The object is not there any more, or not in the state the write was meant for: what the watch
/// brings decides anew.
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 || status.code == 409)
}
