//! The figures, as a table for people and as one line of JSON for programs.

use serde_json::{Map, Value};

#[derive(Default)]
pub struct Report {
    rows: Vec<(String, f64, &'static str)>,
}

impl Report {
    fn add(&mut self, name: &str, value: f64, unit: &'static str) {
        eprintln!("{name}: {value:.1} {unit}");
        self.rows.push((name.to_owned(), value, unit));
    }

    pub fn rate(&mut self, name: &str, per_second: f64) {
        self.add(name, per_second, "/s");
    }

    pub fn millis(&mut self, name: &str, millis: f64) {
        self.add(name, millis, "ms");
    }

    pub fn mebibytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes as f64 / f64::from(1 << 20), "MiB");
    }

    pub fn print(&self, json: bool) {
        let width = self.rows.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
        for (name, value, unit) in &self.rows {
            println!("{name:<width$}  {value:>12.1} {unit}");
        }
        if json {
            let values: Map<String, Value> = self
                .rows
                .iter()
                .map(|(name, value, _)| (name.clone(), (*value).into()))
                .collect();
            println!("{}", Value::Object(values));
        }
    }
}
