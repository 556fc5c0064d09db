//! From a symptom to its cause, in plain sentences, with the next step.

mod ip;
mod ip_at;
mod machine;
mod node;
mod pod;
mod subnet;

use berth_api::Count;
use jiff::Timestamp;
use serde::Serialize;

pub use ip::ip;
pub use ip_at::ip_at;
pub use machine::machine;
pub use node::node;
pub use pod::pod;
pub use subnet::subnet;

/// What is to be told, in order: the symptom first, then what it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub sentences: Vec<String>,
    /// What a person can do. Empty when nothing is wrong.
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
