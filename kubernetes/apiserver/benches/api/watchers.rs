//! How long after a write was answered, or before, its event is at each watcher.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::{Client, Config};

use crate::load::Load;

const WRITES: usize = 10_000;

/// p50 and p99 in milliseconds, from the moment the write is sent.
pub async fn delivery(
    config: &Config,
    load: &Load,
    watchers: usize,
    per_second: u64,
) -> (f64, f64) {
    let start = Instant::now();
    let ready = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..watchers)
        .map(|_| {
            let client = Client::try_from(config.clone()).unwrap();
            tokio::spawn(watch(client, load.path(), start, ready.clone()))
        })
        .collect();
    while ready.load(Ordering::Relaxed) < watchers {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let client = Client::try_from(config.clone()).unwrap();
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / per_second));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut writes = Vec::new();
    for n in 0..WRITES {
        tick.tick().await;
        let (client, path) = (client.clone(), format!("{}/pod-{}", load.path(), n % 1_000));
        writes.push(tokio::spawn(async move {
            let sent = start.elapsed().as_nanos();
            let body =
                serde_json::json!({"metadata": {"annotations": {"sent": format!("at:{sent}:")}}});
            let request =
                Request::patch(path).header("content-type", "application/merge-patch+json");
            client
                .request_text(request.body(body.to_string().into_bytes()).unwrap())
                .await
                .unwrap();
        }));
    }
    for write in writes {
        write.await.unwrap();
    }
    let mut all = Vec::with_capacity(WRITES * watchers);
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    let at = |share: usize| all[(all.len() - 1) * share / 100] as f64 / 1e6;
    (at(50), at(99))
}

async fn watch(client: Client, path: String, start: Instant, ready: Arc<AtomicUsize>) -> Vec<u64> {
    let version = client.request::<serde_json::Value>(
        Request::get(format!("{path}?limit=1")).body(Vec::new()).unwrap(),
    );
    let version = version.await.unwrap()["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = Request::get(format!("{path}?watch=true&resourceVersion={version}"))
        .body(Vec::new())
        .unwrap();
    let mut body = client.send(request.map(Body::from)).await.unwrap().into_body();
    ready.fetch_add(1, Ordering::Relaxed);
    let mut delays = Vec::with_capacity(WRITES);
    let mut unread = Vec::new();
    while delays.len() < WRITES {
        let frame = body.frame().await.expect("the watch ended early").unwrap();
        let now = start.elapsed().as_nanos() as u64;
        unread.extend_from_slice(frame.data_ref().unwrap());
        let whole = unread.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        for line in std::str::from_utf8(&unread[..whole]).unwrap().lines() {
            let sent = line.split_once("at:").and_then(|(_, rest)| rest.split_once(':'));
            if let Some(sent) = sent.and_then(|(sent, _)| sent.parse::<u64>().ok()) {
                delays.push(now.saturating_sub(sent));
            }
        }
        unread.drain(..whole);
    }
    delays
}
