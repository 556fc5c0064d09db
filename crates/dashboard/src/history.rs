//! How full each subnet was since this process started, and when it will be full.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

/// The time between two samples.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// One hour of samples.
const MAX_SAMPLES: usize = 720;
/// A forecast looks back ten minutes, and needs half a minute.
const MAX_LOOK_BACK: usize = 120;
const MIN_LOOK_BACK: usize = 6;
/// A forecast beyond this time is not shown.
const HORIZON: f64 = 30.0 * 86_400.0;

/// One moment of a subnet. Counts of IPv6 do not fit an integer that a browser can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub capacity: f64,
    pub reserved: f64,
    pub cooling_down: f64,
    /// Addresses that its nodes have for pods, and the pods on them that need one.
    pub pool: f64,
    pub demand: f64,
}

/// When a subnet runs out, if the trend of the last ten minutes goes on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Forecast {
    /// The samples cover less than half a minute.
    Unknown,
    Full,
    /// It does not fill up, or not within a month.
    Steady,
    RunsOut {
        seconds: f64,
    },
}

#[derive(Debug, Default)]
pub struct History {
    subnets: BTreeMap<String, VecDeque<(Timestamp, Sample)>>,
    /// Of ADD calls: the median and the 99th percentile, in seconds.
    latency: VecDeque<(Timestamp, Option<[f64; 2]>)>,
}

/// Columns, as a chart takes them. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetColumns {
    pub times: Vec<f64>,
    pub capacity: Vec<f64>,
    pub reserved: Vec<f64>,
    pub pool: Vec<f64>,
    pub demand: Vec<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyColumns {
    pub times: Vec<f64>,
    pub median: Vec<Option<f64>>,
    pub high: Vec<Option<f64>>,
}

impl History {
    /// Records a sample of each subnet, and deletes subnets that are not in `samples`.
    pub fn record(&mut self, now: Timestamp, samples: BTreeMap<String, Sample>) {
        self.subnets.retain(|name, _| samples.contains_key(name));
        for (name, sample) in samples {
            let kept = self.subnets.entry(name).or_default();
            kept.push_back((now, sample));
            if kept.len() > MAX_SAMPLES {
                kept.pop_front();
            }
        }
    }

    pub fn record_latency(&mut self, now: Timestamp, quantiles: Option<[f64; 2]>) {
        self.latency.push_back((now, quantiles));
        if self.latency.len() > MAX_SAMPLES {
            self.latency.pop_front();
        }
    }

    pub fn forecast(&self, subnet: &str) -> Forecast {
        let kept = self.subnets.get(subnet);
        kept.map_or(Forecast::Unknown, |kept| forecast(kept.iter().copied()))
    }

    pub fn columns(&self, subnet: &str) -> SubnetColumns {
        let mut columns = SubnetColumns::default();
        for (time, sample) in self.subnets.get(subnet).into_iter().flatten() {
            columns.times.push(seconds(*time));
            columns.capacity.push(sample.capacity);
            columns.reserved.push(sample.reserved);
            columns.pool.push(sample.pool);
            columns.demand.push(sample.demand);
        }
        columns
    }

    pub fn latency(&self) -> LatencyColumns {
        let mut columns = LatencyColumns::default();
        for (time, quantiles) in &self.latency {
            columns.times.push(seconds(*time));
            columns.median.push(quantiles.map(|[median, _]| median));
            columns.high.push(quantiles.map(|[_, high]| high));
        }
        columns
    }
}

fn seconds(time: Timestamp) -> f64 {
    time.as_duration().as_secs_f64()
}

/// Extrapolates a line through the last samples, by least squares.
fn forecast(samples: impl DoubleEndedIterator<Item = (Timestamp, Sample)>) -> Forecast {
    let last: Vec<(Timestamp, Sample)> = samples.rev().take(MAX_LOOK_BACK).collect();
    let Some((now, latest)) = last.first().copied() else {
        return Forecast::Unknown;
    };
    let left = latest.capacity - latest.reserved;
    if latest.capacity > 0.0 && left <= 0.0 {
        return Forecast::Full;
    }
    if last.len() < MIN_LOOK_BACK {
        return Forecast::Unknown;
    }
    let points = last
        .iter()
        .map(|(at, sample)| (seconds(*at) - seconds(now), sample.reserved));
    let count = points.clone().map(|_| 1.0).sum::<f64>();
    let mean_x = points.clone().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.clone().map(|(_, y)| y).sum::<f64>() / count;
    let spread = points.clone().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    let shared = points.map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    let slope = shared / spread;
    if slope.is_finite() && slope > 0.0 && left / slope < HORIZON {
        Forecast::RunsOut {
            seconds: (left / slope).round(),
        }
    } else {
        Forecast::Steady
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;

    fn history(reserved: impl IntoIterator<Item = f64>) -> History {
        let mut history = History::default();
        for (step, reserved) in (0_i64..).zip(reserved) {
            let sample = Sample {
                capacity: 100.0,
                reserved,
                ..Sample::default()
            };
            let now = Timestamp::UNIX_EPOCH + (step * 5).seconds();
            history.record(now, [("pods".to_owned(), sample)].into());
        }
        history
    }

    #[test]
    fn a_subnet_that_fills_up_is_foretold_to_the_second() {
        // One address in 5 s: 60 are left after 41 samples.
        let told = history((0..=40).map(f64::from)).forecast("pods");
        assert_eq!(told, Forecast::RunsOut { seconds: 300.0 });
    }

    #[test]
    fn a_subnet_that_stays_or_empties_does_not_run_out() {
        assert_eq!(history([40.0; 20]).forecast("pods"), Forecast::Steady);
        assert_eq!(history((0..20).rev().map(f64::from)).forecast("pods"), Forecast::Steady);
    }

    #[test]
    fn a_full_subnet_is_full_and_a_new_one_is_unknown() {
        assert_eq!(history([100.0]).forecast("pods"), Forecast::Full);
        assert_eq!(history([1.0, 2.0]).forecast("pods"), Forecast::Unknown);
        assert_eq!(History::default().forecast("pods"), Forecast::Unknown);
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let history = history(vec![1.0; MAX_SAMPLES + 10]);
        assert_eq!(history.columns("pods").times.len(), MAX_SAMPLES);
    }
}
