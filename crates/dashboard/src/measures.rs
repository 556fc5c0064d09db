//! Measurements from agents' metrics: how long an ADD takes, and what waits in the release queues.

use std::collections::BTreeMap;

const CALLS: &str = "berth_agent_call_seconds_bucket";
const QUEUED: &str = "berth_agent_queue_entries";
const QUEUE_AGE: &str = "berth_agent_queue_age_seconds";

/// One reading of one or more agents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// How many ADD calls took no longer than each upper bound so far. Bounds are in nanoseconds;
    /// `u64::MAX` is `+Inf`.
    adds: BTreeMap<u64, f64>,
    /// By node.
    pub queued: BTreeMap<String, Queue>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Queue {
    pub entries: f64,
    /// The age of the oldest entry.
    pub age_seconds: f64,
}

impl Measured {
    /// Reads the text of a scrape. Other lines are ignored.
    pub fn read(text: &str) -> Self {
        let mut measured = Self::default();
        for line in text.lines() {
            let Some((head, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let (Some((name, labels)), Ok(value)) = (head.split_once('{'), value.parse::<f64>())
            else {
                continue;
            };
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!("{name}=\""))?;
                rest.split('"').next()
            };
            let node = label("node").unwrap_or_default().to_owned();
            match name {
                CALLS if label("operation") == Some("add") && label("result") == Some("ok") => {
                    if let Some(bound) = label("le").and_then(bound) {
                        *measured.adds.entry(bound).or_default() += value;
                    }
                }
                QUEUED => measured.queued.entry(node).or_default().entries = value,
                QUEUE_AGE => measured.queued.entry(node).or_default().age_seconds = value,
                _ => {}
            }
        }
        measured
    }

    pub fn sum(all: &[Self]) -> Self {
        let mut sum = Self::default();
        for one in all {
            for (bound, count) in &one.adds {
                *sum.adds.entry(*bound).or_default() += count;
            }
            sum.queued.extend(one.queued.clone());
        }
        sum
    }

    /// The median and the 99th percentile of the ADDs since `before`, in seconds; `None` without
    /// any. Each is the upper bound of its bucket; beyond the last bound, it is that bound.
    pub fn adds_since(&self, before: &Self) -> Option<[f64; 2]> {
        let since = self.adds.iter().map(|(bound, count)| {
            let earlier = before.adds.get(bound).copied().unwrap_or_default();
            // An agent counts from 0 again after a restart.
            (*bound, if *count < earlier { *count } else { count - earlier })
        });
        let since: Vec<(u64, f64)> = since.collect();
        let all = since.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
        let at = |share: f64| {
            let found = since.iter().find(|(_, count)| *count >= all * share);
            let last = since
                .iter()
                .rev()
                .map(|(bound, _)| *bound)
                .find(|bound| *bound < u64::MAX);
            let bound = found.map(|(bound, _)| *bound).filter(|bound| *bound < u64::MAX);
            std::time::Duration::from_nanos(bound.or(last).unwrap_or_default()).as_secs_f64()
        };
        Some([at(0.5), at(0.99)])
    }
}

/// In nanoseconds, as a key to add up the buckets of several agents.
fn bound(text: &str) -> Option<u64> {
    if text == "+Inf" {
        return Some(u64::MAX);
    }
    let seconds = text.parse::<f64>().ok()?;
    let duration = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(duration.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(quick: u32, all: u32) -> Measured {
        let bucket = |le: &str, count: u32| {
            format!(
                "{CALLS}{{le=\"{le}\",node=\"n1\",operation=\"add\",result=\"ok\"}} {count}\n\
                 {CALLS}{{le=\"{le}\",node=\"n1\",operation=\"del\",result=\"ok\"}} 99\n"
            )
        };
        let text = [bucket("0.001", quick), bucket("0.002", all), bucket("+Inf", all)].concat();
        Measured::read(&format!("{text}{QUEUED}{{node=\"n1\"}} 3\n# EOF\n"))
    }

    #[test]
    fn quantiles_are_of_the_calls_in_between() {
        let (before, after) = (scrape(100, 100), scrape(190, 200));
        assert_eq!(after.adds_since(&before), Some([0.001, 0.002]));
        assert_eq!(after.adds_since(&after), None);
    }

    #[test]
    fn an_agent_that_was_started_again_counts_from_nothing() {
        assert_eq!(scrape(5, 5).adds_since(&scrape(100, 100)), Some([0.001, 0.001]));
    }

    #[test]
    fn queues_are_told_by_node() {
        let queue = scrape(0, 0).queued["n1"];
        assert!((queue.entries - 3.0).abs() < f64::EPSILON);
    }
}
