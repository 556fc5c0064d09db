//! Compares the tables of metrics with what a process really serves.

use std::collections::BTreeMap;

use berth_e2e::docs::pages;

use crate::shell::Shell;

/// Name and type of each row of a table of metrics.
fn rows() -> BTreeMap<String, String> {
    let pages = pages().unwrap();
    let lines = pages.iter().flat_map(|page| page.text.lines());
    let rows = lines.filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let (kind, _) = rest.split_once(" | ")?;
        let name = name.split('{').next()?;
        Some((name.to_owned(), kind.to_owned()))
    });
    rows.filter(|(_, kind)| matches!(kind.as_str(), "counter" | "gauge" | "histogram" | "info"))
        .collect()
}

#[test]
fn every_metric_of_a_cluster_is_in_a_table_with_its_type() {
    let mut shell = Shell::open().unwrap();
    shell.up().unwrap();
    let text = shell.printed("curl -sS http://127.0.0.1:7480/metrics").unwrap();
    let rows = rows();
    let mut count = 0;
    let mut missing = Vec::new();
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').unwrap();
        let name = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        count += 1;
        if rows.get(&name).map(String::as_str) != Some(kind) {
            missing.push(format!("{name} ({kind})"));
        }
    }
    assert!(count > 20, "only {count} were found in\n{text}");
    assert!(missing.is_empty(), "in no table: {missing:?}");
}
