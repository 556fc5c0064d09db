//! Watches. A watcher holds a cursor into the table's history and no queue of its own. A slow
//! watcher costs nothing. One that falls behind the history gets a 410 and must list again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use berth_apimachinery::conversion::Conversion;
use berth_apimachinery::selectors::{Matcher, node_of};
use berth_apimachinery::status::{FieldError, Path, Result, Status};
use bytes::{Bytes, BytesMut};
use futures::stream;
use serde_json::{Value, json as value};
use tokio::time::Instant;

use super::answer::{self, Form};
use super::call::{Call, Front};
use super::list;
use super::step::{self, Step};
use crate::kinds::Kind;
use crate::resources::Resources;
use crate::store::{Event, EventKind, Range, Record, TooOld};
use crate::tables::Table;

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before the end, so that the client's next watch starts from a
/// recent version.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// The timeout of a watch without `timeoutSeconds`, as in kube-apiserver, so that clients spread
/// out again.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);
/// How many events are read from the history at a time.
const BATCH: usize = 256;

pub fn watch(front: &Arc<Front>, call: &Call) -> Result<Response> {
    let asked = call.params.version()?;
    let initial = call.params.send_initial_events;
    check_send_initial_events(call)?;
    let resources = front.resources.clone();
    let table = call.kind.table();
    let changed = resources.store.subscribe(&table);
    let mut watcher = Watcher {
        kind: call.kind.clone(),
        form: call.form,
        namespace: call.target.namespace.clone(),
        matcher: list::matcher(call)?,
        bookmarks: call.params.bookmarks,
        step: front.step.clone(),
        rows: Table::new(&call.kind),
        columns_sent: false,
        cursor: 0,
        resources,
        table,
    };
    // The current objects come first unless the client continues from a version.
    let mut ready = VecDeque::new();
    if initial == Some(true) || (initial.is_none() && asked.is_none()) {
        if let Some(asked) = asked {
            list::not_in_the_future(&watcher.resources, asked)?;
        }
        ready = watcher.initial_events(initial == Some(true))?;
    } else {
        watcher.cursor = asked.unwrap_or_else(|| watcher.resources.store.version());
    }
    // 0 means no timeout too. The cap keeps `Instant` from overflowing.
    let seconds = call.params.timeout_seconds.filter(|seconds| *seconds > 0);
    let timeout = seconds.map_or(DEFAULT_TIMEOUT, |seconds| {
        Duration::from_secs(seconds.min(u32::MAX.into()))
    });
    let end = Instant::now() + timeout;
    let state = Stream {
        watcher,
        changed,
        ready,
        ended: false,
        waits_until: None,
        end,
        bookmark_at: next_bookmark(end),
        stop: front.stop.clone(),
    };
    let mut response = answer::typed(200, Bytes::new(), answer::JSON);
    *response.body_mut() = Body::from_stream(stream::unfold(state, next));
    Ok(response)
}

fn check_send_initial_events(call: &Call) -> Result<()> {
    let params = &call.params;
    let refused = match (params.send_initial_events, params.version_match.as_deref()) {
        (Some(_), Some("NotOlderThan")) | (None, None) => return Ok(()),
        (Some(_), _) => FieldError::forbidden(
            Path::new("resourceVersionMatch"),
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (None, Some(_)) => FieldError::forbidden(
            Path::new("resourceVersionMatch"),
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    };
    Err(super::params::options_invalid(refused))
}

struct Stream {
    watcher: Watcher,
    changed: tokio::sync::watch::Receiver<u64>,
    ready: VecDeque<Bytes>,
    ended: bool,
    waits_until: Option<Instant>,
    end: Instant,
    bookmark_at: Instant,
    stop: tokio_util::sync::CancellationToken,
}

async fn next(mut stream: Stream) -> Option<(Result<Bytes, Infallible>, Stream)> {
    loop {
        if let Some(chunk) = stream.ready.pop_front() {
            return Some((Ok(chunk), stream));
        }
        if stream.ended {
            return None;
        }
        if let Some(until) = stream.waits_until.take() {
            tokio::select! {
                () = stream.stop.cancelled() => return None,
                () = tokio::time::sleep_until(until) => {}
            }
        }
        // Marked as seen before the read: a change during the read wakes the watcher again.
        stream.changed.borrow_and_update();
        match stream.watcher.advance() {
            Ok(piece) if !piece.is_empty() => {
                stream.waits_until = Some(stream.watcher.step.next());
                return Some((Ok(piece), stream));
            }
            Ok(_) => {}
            Err(too_old) => {
                stream.ended = true;
                return Some((Ok(gone(too_old)), stream));
            }
        }
        let bookmark_at = stream.watcher.bookmarks.then_some(stream.bookmark_at);
        let next = bookmark_at.map_or(stream.end, |at| at.min(stream.end));
        tokio::select! {
            biased;
            () = stream.stop.cancelled() => return None,
            changed = stream.changed.changed() => changed.ok()?,
            () = tokio::time::sleep_until(next) => {
                if next == stream.end {
                    return None;
                }
                stream.bookmark_at = next_bookmark(stream.end);
                // Changes of other kinds have raised the version. If the watch is too old by now,
                // the next turn reports it.
                if let Ok(piece) = stream.watcher.advance() {
                    stream.ready.extend((!piece.is_empty()).then_some(piece));
                    stream.ready.push_back(stream.watcher.bookmark(false));
                }
            }
        }
    }
}

fn next_bookmark(end: Instant) -> Instant {
    let now = Instant::now();
    let regular = now + BOOKMARK_INTERVAL;
    let last = end.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(regular, |last| last.min(regular))
}

struct Watcher {
    resources: Arc<Resources>,
    kind: Arc<Kind>,
    table: String,
    form: Form,
    namespace: Option<String>,
    matcher: Matcher,
    bookmarks: bool,
    step: Arc<Step>,
    rows: Table,
    /// Whether the table's columns have been sent.
    columns_sent: bool,
    /// Everything up to this version has been sent.
    cursor: u64,
}

impl Watcher {
    /// The current objects as ADDED events, in chunks. Sets the cursor to their version.
    fn initial_events(&mut self, with_end: bool) -> Result<VecDeque<Bytes>> {
        let range = Range {
            namespace: self.namespace.as_deref().map(Arc::from),
            ..Range::default()
        };
        let page = self.resources.store.list(&self.table, &range);
        let page = page.map_err(|error| Status::expired(error.to_string()))?;
        self.cursor = page.version;
        let mut chunks = VecDeque::new();
        let mut chunk = BytesMut::new();
        for (_, record) in &page.records {
            if !self.matcher.matches(&record.body) {
                continue;
            }
            chunk.extend_from_slice(&self.encode(EventKind::Added, record));
            if chunk.len() > 64 << 10 {
                chunks.push_back(std::mem::take(&mut chunk).freeze());
            }
        }
        if with_end && self.bookmarks {
            chunk.extend_from_slice(&self.bookmark(true));
        }
        if !chunk.is_empty() {
            chunks.push_back(chunk.freeze());
        }
        Ok(chunks)
    }

    /// The events since the cursor. Empty if none is for this watcher.
    fn advance(&mut self) -> Result<Bytes, TooOld> {
        loop {
            let since = self.resources.store.since(&self.table, self.cursor, BATCH)?;
            let piece = self.piece(&since.events);
            self.cursor = since.version;
            if !piece.is_empty() || since.events.len() < BATCH {
                return Ok(piece);
            }
        }
    }

    /// Watchers that get objects as they are stored also share the bytes.
    fn piece(&mut self, events: &[Arc<Event>]) -> Bytes {
        let plain = self.form == Form::Whole && self.kind.conversion == Conversion::None;
        if plain && self.matcher.is_everything() {
            return self.step.piece(events, self.namespace.as_deref());
        }
        let mut piece = BytesMut::new();
        for event in events {
            if step::is_inside(event, self.namespace.as_deref())
                && self.may_match(event)
                && let Some((kind, record)) = self.filter(event)
            {
                piece.extend_from_slice(&self.encode(kind, &record));
            }
        }
        piece.freeze()
    }

    /// A cheap check by name and node, before the object is read. If a thousand nodes watch their
    /// own pods and objects, each event is for one of them.
    fn may_match(&self, event: &Event) -> bool {
        let pinned = |name: &str| name == &*event.key.name;
        let on = |node: &str| event.nodes(node_of).iter().flatten().any(|bound| **bound == *node);
        self.matcher.single_name().is_none_or(pinned) && self.matcher.single_node().is_none_or(on)
    }

    /// The event as this selector sees it: an object that begins to match is ADDED, one that no
    /// longer matches is DELETED.
    fn filter(&self, event: &Event) -> Option<(EventKind, Record)> {
        let before = event.previous.as_ref();
        let was = before.is_some_and(|record| self.matcher.matches(&record.body));
        let is = event.kind != EventKind::Deleted && self.matcher.matches(&event.body);
        let record = Record {
            version: event.version,
            body: event.body.clone(),
        };
        match (was, is) {
            (false, false) => None,
            (false, true) => Some((EventKind::Added, record)),
            (true, true) => Some((EventKind::Modified, record)),
            (true, false) if event.kind == EventKind::Deleted => Some((EventKind::Deleted, record)),
            // The last state that matched, with the version of the change that ended the match.
            (true, false) => {
                let mut object: Value = serde_json::from_slice(&before?.body).ok()?;
                object["metadata"]["resourceVersion"] = event.version.to_string().into();
                let body = Bytes::from(object.to_string());
                Some((EventKind::Deleted, Record { body, ..record }))
            }
        }
    }

    fn encode(&mut self, kind: EventKind, record: &Record) -> Bytes {
        if self.form == Form::Whole && self.kind.conversion == Conversion::None {
            return crate::store::line(kind.name(), &record.body);
        }
        let Ok(object) = self.resources.decode(&self.kind, record) else {
            return Bytes::new();
        };
        let shown = match self.form {
            Form::Whole => object,
            Form::Metadata => answer::partial(&object),
            Form::Table(include) => {
                let metadata = value!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let row = self.rows.row(&object, include, self.resources.clock.now());
                self.table(vec![row], metadata)
            }
        };
        crate::store::line(kind.name(), shown.to_string().as_bytes())
    }

    fn table(&mut self, rows: Vec<Value>, metadata: Value) -> Value {
        let first = !std::mem::replace(&mut self.columns_sent, true);
        answer::table(first.then(|| self.rows.columns()), rows, metadata)
    }

    fn bookmark(&mut self, initial_events_end: bool) -> Bytes {
        let mut metadata = value!({"resourceVersion": self.cursor.to_string()});
        if initial_events_end {
            metadata["annotations"] = value!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            Form::Whole => {
                value!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata})
            }
            Form::Metadata => answer::partial(&value!({"metadata": metadata})),
            Form::Table(_) => {
                let row = value!({"cells": [], "object": answer::partial(&value!({"metadata": metadata}))});
                self.table(vec![row], value!({"resourceVersion": metadata["resourceVersion"]}))
            }
        };
        crate::store::line("BOOKMARK", object.to_string().as_bytes())
    }
}

fn gone(too_old: TooOld) -> Bytes {
    let message = format!("too old resource version: {} ({})", too_old.asked, too_old.oldest);
    let status = Status::expired(message).to_value();
    crate::store::line("ERROR", status.to_string().as_bytes())
}
