//! From a symptom to its cause, in plain sentences, with the next step.

mod claim;
mod ip;
mod ip_at;
mod machine;
mod node;
mod pod;
mod reason;
mod subnet;

use berth_api::Count;
use berth_kit::watch::Key;
use jiff::Timestamp;
use serde::Serialize;

use crate::facts::Facts;

pub use claim::{claim, cluster};
pub use ip::ip;
pub use ip_at::ip_at;
pub use machine::machine;
pub use node::node;
pub use pod::pod;
pub use reason::{GOOD, REFUSALS, STEPS, step};
pub use subnet::subnet;

/// An answer: the symptom first, then its causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub sentences: Vec<String>,
    /// What a person can do next. Empty when nothing is wrong.
    pub next_steps: Vec<String>,
}

impl Explanation {
    fn says(mut self, sentence: impl Into<String>) -> Self {
        self.sentences.push(sentence.into());
        self
    }

    fn advises(mut self, step: impl Into<String>) -> Self {
        self.next_steps.push(step.into());
        self
    }

    fn then(mut self, more: Self) -> Self {
        self.sentences.extend(more.sentences);
        for step in more.next_steps {
            if !self.next_steps.contains(&step) {
                self.next_steps.push(step);
            }
        }
        self
    }
}

/// The recent warnings about an object, each with its next step.
fn recent_warnings(facts: &Facts, kind: &str, key: &Key) -> Explanation {
    let mut told = Explanation::default();
    for event in facts.warnings(kind, key) {
        let Some(step) = step(&event.reason) else {
            continue;
        };
        let ago = event
            .at
            .map_or_else(String::new, |at| format!(", {} ago", span(at, facts.now)));
        told = told
            .says(format!("{}{ago}: {}.", event.reason, plain(&event.note)))
            .advises(step);
    }
    told
}

/// A message without its full stop: the sentence adds one.
fn plain(message: &str) -> &str {
    message.trim_end().trim_end_matches('.')
}

/// Adds the next step for a reason, if there is one.
fn with_step_for(told: Explanation, reason: Option<&str>) -> Explanation {
    match reason.and_then(step) {
        Some(step) => told.advises(step),
        None => told,
    }
}

fn text(count: Option<Count>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.0.to_string())
}

/// `14 s`, `3 min`, `5 h` or `2 days`.
fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
