//! Many measurements of the same operation.

use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn add(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1e3);
    }

    /// In milliseconds: this many of a hundred samples do not exceed it.
    pub fn percentile(&self, hundredths: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[(sorted.len() * hundredths / 100).min(sorted.len() - 1)]
    }

    pub fn median(&self) -> f64 {
        self.percentile(50)
    }
}
