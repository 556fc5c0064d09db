//! The output of commands: a table for people, JSON and YAML for scripts.

use std::io::Write;

use anyhow::{Context, Result};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Table,
    /// With more columns
    Wide,
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputArgs {
    /// How to print it
    #[arg(short, long, env = "BERTH_OUTPUT", value_enum, default_value_t)]
    pub output: Format,
}

/// A table, its columns as wide as their longest cell.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Self {
        let head = head.iter().map(ToString::to_string).collect();
        Self { rows: vec![head] }
    }

    pub fn add<const N: usize>(&mut self, row: [String; N]) {
        let cell = |cell: String| if cell.is_empty() { "-".to_owned() } else { cell };
        self.rows.push(row.into_iter().map(cell).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("   ").trim_end())?;
        }
        Ok(())
    }
}

/// Prints `text` for people, or `value` for scripts.
pub fn print(format: Format, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    let printed = match format {
        Format::Table | Format::Wide => text(),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
        Format::Yaml => serde_saphyr::to_string(value)?,
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(printed.as_bytes()).context("writing to stdout")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let mut table = Table::new(&["NAME", "FREE"]);
        table.add(["pods".to_owned(), "3".to_owned()]);
        table.add(["a-long-name".to_owned(), String::new()]);
        assert_eq!(
            table.to_string(),
            "NAME          FREE\npods          3\na-long-name   -\n"
        );
    }
}
