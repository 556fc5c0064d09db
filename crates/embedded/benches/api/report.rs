//! The figures, as a table for people and as one line of JSON for programs.

use serde_json::{Map, Value};

#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

type Row = (String, f64, &'static str);

/// Those that are in both, by name.
fn matching(ours: Vec<Row>, theirs: &[Row]) -> Vec<(Row, Row)> {
    let find = |name: &str| theirs.iter().find(|(other, ..)| other == name).cloned();
    ours.into_iter()
        .filter_map(|row| Some((row.clone(), find(&row.0)?)))
        .collect()
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

    /// For each figure that two servers have, how many times the first one's is the second one's, or the other way round where less is better.
    pub fn compare(&mut self, ours: &str, theirs: &str) {
        let of = |label: &str| -> Vec<Row> {
            let figure = |(name, value, unit): &Row| {
                let name = name.strip_prefix(label)?.strip_prefix(": ")?;
                Some((name.to_owned(), *value, *unit))
            };
            self.rows.iter().filter_map(figure).collect()
        };
        for ((name, ours, unit), (_, theirs, _)) in matching(of(ours), &of(theirs)) {
            let (times, word) = if unit == "/s" {
                (ours / theirs, "of theirs")
            } else {
                (theirs / ours, "less than theirs")
            };
            self.add(&format!("times {word}: {name}"), times, "x");
        }
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
