//! Which of the recorded events arrive at the API server, and how.

use std::time::Duration;

use berth_kit::events::{Event, EventMetrics, Recorder};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{EventType, Reporter};
use prometheus_client::registry::Registry;
use rand::{SeedableRng, rngs::StdRng};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::server::{Fault, Server};

struct Fixture {
    recorder: Recorder,
    registry: Registry,
    stop: CancellationToken,
}

impl Fixture {
    fn start(client: kube::Client) -> Self {
        let mut registry = Registry::default();
        let metrics = EventMetrics::register(&mut registry);
        let reporter = Reporter {
            controller: "berth.dev/controller".to_owned(),
            instance: Some("pod-1".to_owned()),
        };
        let (recorder, writer) =
            Recorder::new(client, reporter, &metrics, StdRng::seed_from_u64(1));
        let stop = CancellationToken::new();
        tokio::spawn(writer.run(stop.clone()));
        Self {
            recorder,
            registry,
            stop,
        }
    }

    fn record(&self, note: &str) {
        let event = Event {
            type_: EventType::Warning,
            reason: "SubnetFull",
            action: "Allocate",
            note: note.to_owned(),
            related: None,
        };
        self.recorder.record(&node("n1"), event);
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn node(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

async fn settle() {
    sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_has_all_that_the_api_server_requires() {
    let server = Server::default();
    let events = Fixture::start(server.reliable());
    events.record(&"ä".repeat(2000));
    settle().await;
    let event = &server.objects()[0];
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("n1."));
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["reason"], "SubnetFull");
    assert_eq!(event["action"], "Allocate");
    assert_eq!(event["reportingController"], "berth.dev/controller");
    assert_eq!(event["reportingInstance"], "pod-1");
    assert_eq!(event["regarding"]["kind"], "Node");
    assert!(event["eventTime"].is_string());
    assert_eq!(event["note"].as_str().unwrap().len(), 1024);
}

#[tokio::test(start_paused = true)]
async fn what_repeats_is_one_event_with_a_count() {
    let server = Server::default();
    let events = Fixture::start(server.reliable());
    for _ in 0..5 {
        events.record("no address left");
    }
    settle().await;
    assert_eq!(server.objects().len(), 1);
    assert_eq!(server.objects()[0]["series"]["count"], 5);
    assert_eq!(server.objects()[0]["note"], "no address left");
}

#[tokio::test(start_paused = true)]
async fn a_series_whose_event_was_deleted_starts_over() {
    let server = Server::default();
    let events = Fixture::start(server.reliable());
    events.record("no address left");
    settle().await;
    server.delete_all();
    events.record("no address left");
    settle().await;
    assert_eq!(server.objects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_limited_and_what_is_left_out_is_counted() {
    let server = Server::default();
    let events = Fixture::start(server.reliable());
    for n in 0..500 {
        events.record(&n.to_string());
    }
    settle().await;
    assert_eq!(server.objects().len(), 25);
    let metrics = events.metrics();
    assert!(
        metrics.contains(r#"berth_events_unwritten_total{reason="RateLimited"} 475"#),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn recording_does_not_wait_for_a_server_that_does_not_answer() {
    let server = Server::default();
    let events = Fixture::start(server.client(|| Fault {
        delay: Duration::from_secs(3600),
        ..Fault::default()
    }));
    let start = Instant::now();
    for n in 0..1500 {
        events.record(&n.to_string());
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    let metrics = events.metrics();
    assert!(
        metrics.contains(r#"berth_events_unwritten_total{reason="QueueFull"} 500"#),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_was_lost_is_written_once() {
    let server = Server::default();
    let mut first = true;
    let events = Fixture::start(server.client(move || Fault {
        answer_lost: std::mem::take(&mut first),
        ..Fault::default()
    }));
    events.record("no address left");
    settle().await;
    events.record("no address left");
    settle().await;
    assert_eq!(server.objects().len(), 1);
    assert_eq!(server.objects()[0]["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_written_is_given_up_and_counted() {
    let server = Server::default();
    let events = Fixture::start(server.client(|| Fault {
        refused: true,
        ..Fault::default()
    }));
    events.record("no address left");
    settle().await;
    let metrics = events.metrics();
    assert!(
        metrics.contains(r#"berth_events_unwritten_total{reason="WriteFailed"} 1"#),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_recorded_before_the_stop_is_written() {
    let server = Server::default();
    let events = Fixture::start(server.reliable());
    events.record("first");
    events.record("second");
    events.stop.cancel();
    settle().await;
    assert_eq!(server.objects().len(), 2);
}
