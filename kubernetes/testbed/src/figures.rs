//! The results of a benchmark, as a table for people and as one line of JSON for programs.

use serde_json::{Map, Value};

#[derive(Debug, Default)]
pub struct Figures {
    rows: Vec<Figure>,
}

#[derive(Clone, Debug)]
struct Figure {
    name: String,
    value: f64,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    PerSecond,
    Milliseconds,
    Microseconds,
    Mebibytes,
    Times,
    Count,
}

impl Unit {
    fn symbol(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Mebibytes => "MiB",
            Self::Times => "x",
            Self::Count => "",
        }
    }

    fn digits(self) -> usize {
        match self {
            Self::Times | Self::Count => 2,
            _ => 1,
        }
    }
}

impl Figures {
    /// Each figure is printed as soon as it is known: a benchmark takes long.
    fn add(&mut self, name: &str, value: f64, unit: Unit) {
        eprintln!("{name}: {value:.*} {}", unit.digits(), unit.symbol());
        self.rows.push(Figure {
            name: name.to_owned(),
            value,
            unit,
        });
    }

    pub fn rate(&mut self, name: &str, per_second: f64) {
        self.add(name, per_second, Unit::PerSecond);
    }

    pub fn millis(&mut self, name: &str, millis: f64) {
        self.add(name, millis, Unit::Milliseconds);
    }

    pub fn micros(&mut self, name: &str, micros: f64) {
        self.add(name, micros, Unit::Microseconds);
    }

    #[allow(clippy::cast_precision_loss, reason = "nobody has so many bytes that it matters")]
    pub fn mebibytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes as f64 / f64::from(1 << 20), Unit::Mebibytes);
    }

    pub fn times(&mut self, name: &str, times: f64) {
        self.add(name, times, Unit::Times);
    }

    pub fn count(&mut self, name: &str, count: f64) {
        self.add(name, count, Unit::Count);
    }

    /// For each figure that both servers have, the ratio of the first to the second, or the inverse
    /// if less is better.
    pub fn compare(&mut self, ours: &str, theirs: &str) {
        let theirs = self.of(theirs);
        for ours in self.of(ours) {
            let Some(theirs) = theirs.iter().find(|theirs| theirs.name == ours.name) else {
                continue;
            };
            let (times, word) = if ours.unit == Unit::PerSecond {
                (ours.value / theirs.value, "of theirs")
            } else {
                (theirs.value / ours.value, "less than theirs")
            };
            self.times(&format!("times {word}: {}", ours.name), times);
        }
    }

    /// The figures whose names start with the label, with the label removed.
    fn of(&self, label: &str) -> Vec<Figure> {
        let of_label = |figure: &Figure| {
            let name = figure.name.strip_prefix(label)?.strip_prefix(": ")?.to_owned();
            Some(Figure {
                name,
                ..figure.clone()
            })
        };
        self.rows.iter().filter_map(of_label).collect()
    }

    pub fn print(&self, json: bool) {
        let width = self
            .rows
            .iter()
            .map(|figure| figure.name.len())
            .max()
            .unwrap_or_default();
        for Figure { name, value, unit } in &self.rows {
            println!("{name:<width$}  {value:>12.*} {}", unit.digits(), unit.symbol());
        }
        if json {
            let values = self
                .rows
                .iter()
                .map(|figure| (figure.name.clone(), figure.value.into()));
            println!("{}", Value::Object(values.collect::<Map<String, Value>>()));
        }
    }
}
