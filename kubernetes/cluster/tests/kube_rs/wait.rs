//! Waiting for conditions. No test states a time: the bound only ends a run that would hang, and
//! says what it waited for.

use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};

const BOUND: Duration = Duration::from_secs(300);

/// Looks until there is something.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < BOUND, "not so after {BOUND:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What a future gives that is expected to end.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(found) => found,
        Err(_) => panic!("not so after {BOUND:?}: {what}"),
    }
}

/// The next item of a stream that is expected to go on.
pub async fn next<T>(what: &str, stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    match within(what, stream.next()).await {
        Some(item) => item,
        None => panic!("the stream ended before: {what}"),
    }
}
