//! Waiting for what a stream brings.

use berth_testkit::within;
use futures::{Stream, StreamExt};

/// The next item of a stream that is expected to go on.
pub async fn next<T>(what: &str, stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    match within(what, stream.next()).await {
        Some(item) => item,
        None => panic!("the stream ended before: {what}"),
    }
}
