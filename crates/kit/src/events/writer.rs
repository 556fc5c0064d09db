//! The task that writes events: one after the other, so that an object's events stay in order.

use std::{fmt, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::{
    api::events::v1::{Event as EventObject, EventSeries},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    runtime::events::{EventType, Reporter},
};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    EventMetrics, Occurrence, Reason,
    correlate::{Action, Correlator, Key},
};
use crate::backoff::Exponential;

/// Limits of the API server, in bytes.
const MAX_NOTE_BYTES: usize = 1024;
const MAX_NAME_BYTES: usize = 253;

const MAX_ATTEMPTS: u32 = 4;
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(250),
    max: Duration::from_secs(2),
};
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes what its [`Recorder`](super::Recorder) records, as long as it runs.
pub struct Writer {
    client: Client,
    reporter: Reporter,
    occurrences: mpsc::Receiver<Occurrence>,
    correlator: Correlator,
    metrics: EventMetrics,
    rng: StdRng,
}

impl fmt::Debug for Writer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Writer")
            .field("reporter", &self.reporter)
            .finish_non_exhaustive()
    }
}

impl Writer {
    pub(super) fn new(
        client: Client,
        reporter: Reporter,
        occurrences: mpsc::Receiver<Occurrence>,
        metrics: EventMetrics,
        rng: StdRng,
    ) -> Self {
        Self {
            client,
            reporter,
            occurrences,
            correlator: Correlator::default(),
            metrics,
            rng,
        }
    }

    /// Writes events until `stop`, and then those that were recorded before it.
    pub fn run(mut self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                let occurrence = tokio::select! {
                    biased;
                    () = stop.cancelled(), if !self.occurrences.is_closed() => {
                        self.occurrences.close();
                        continue;
                    }
                    occurrence = self.occurrences.recv() => occurrence,
                };
                let Some(occurrence) = occurrence else {
                    return;
                };
                self.write(&occurrence).await;
            }
        })
    }

    async fn write(&mut self, occurrence: &Occurrence) {
        let key = Key::new(&occurrence.regarding, &occurrence.event);
        let namespace = occurrence.regarding.namespace.as_deref().unwrap_or("default");
        let api = Api::<EventObject>::namespaced(self.client.clone(), namespace);
        let outcome = match self.correlator.observe(key, Instant::now()) {
            Action::Skip => return self.metrics.unwritten(Reason::RateLimited),
            Action::Create => self.create(&api, key, occurrence).await,
            Action::Continue { name, count } => {
                let series = EventSeries {
                    count,
                    last_observed_time: MicroTime(occurrence.at),
                };
                let patch = Patch::Merge(json!({ "series": series }));
                let params = PatchParams::default();
                match with_retries(|| api.patch(&name, &params, &patch)).await {
                    // Events are deleted after an hour or so: the series starts over.
                    Err(kube::Error::Api(status)) if status.is_not_found() => {
                        self.create(&api, key, occurrence).await
                    }
                    patched => patched.map(drop),
                }
            }
        };
        if let Err(error) = outcome {
            let event = &occurrence.event;
            warn!(%error, reason = event.reason, note = event.note, "cannot write an event; \
                                                                     dropping it");
            self.metrics.unwritten(Reason::WriteFailed);
        }
    }

    async fn create(
        &mut self,
        api: &Api<EventObject>,
        key: Key,
        occurrence: &Occurrence,
    ) -> Result<(), kube::Error> {
        let object = self.object(occurrence);
        let params = PostParams::default();
        let created = with_retries(|| api.create(&params, &object)).await;
        match created {
            Ok(_) => {}
            // Our own earlier attempt created it, and its answer was lost: nobody else uses this
            // name.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error),
        }
        let name = object.metadata.name.unwrap_or_default();
        self.correlator.written(key, name, Instant::now());
        Ok(())
    }

    fn object(&mut self, occurrence: &Occurrence) -> EventObject {
        let Occurrence { event, regarding, at } = occurrence;
        let suffix = format!(".{:016x}", self.rng.next_u64());
        let about = regarding.name.as_deref().unwrap_or(&self.reporter.controller);
        let instance = self.reporter.instance.as_ref();
        EventObject {
            metadata: ObjectMeta {
                name: Some(format!("{}{suffix}", cut(about, MAX_NAME_BYTES - suffix.len()))),
                namespace: Some(
                    regarding.namespace.clone().unwrap_or_else(|| "default".to_owned()),
                ),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(*at)),
            type_: Some(type_name(event.type_).to_owned()),
            reason: Some(event.reason.to_owned()),
            action: Some(event.action.to_owned()),
            note: Some(cut(&event.note, MAX_NOTE_BYTES).to_owned()),
            regarding: Some(regarding.clone()),
            related: event.related.clone(),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(instance.unwrap_or(&self.reporter.controller).clone()),
            ..EventObject::default()
        }
    }
}

fn type_name(type_: EventType) -> &'static str {
    match type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

/// At most `bytes` of `text`, in whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Retries a call that got no answer; an answer is final.
async fn with_retries<T, F>(call: impl Fn() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut failures = 0;
    loop {
        let outcome = timeout(REQUEST_TIMEOUT, call())
            .await
            .unwrap_or_else(|elapsed| Err(kube::Error::Service(elapsed.into())));
        failures += 1;
        match outcome {
            Err(kube::Error::Service(_) | kube::Error::HyperError(_))
                if failures < MAX_ATTEMPTS =>
            {
                sleep(BACKOFF.delay(failures - 1)).await;
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("addr", 10), "addr");
        assert_eq!(cut("addr", 2), "ad");
        assert_eq!(cut("aä", 2), "a");
    }
}
