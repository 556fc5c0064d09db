//! Rules, dashboard and scrape configuration, before promtool.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::{deploy, read, run};

fn promtool(words: &[&str]) -> Command {
    let mut command = Command::new("promtool");
    command.current_dir(deploy("monitoring")).args(words);
    command
}

#[test]
fn each_alert_fires_for_its_cause_and_none_in_a_healthy_cluster() {
    run(&mut promtool(&["check", "rules", "rules.yaml"]));
    run(&mut promtool(&["test", "rules", "rules_test.yaml"]));
    let (rules, tests) = (read("monitoring/rules.yaml"), read("monitoring/rules_test.yaml"));
    let alerts: BTreeSet<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    let (causes, healthy) = tests.split_once("name: a healthy cluster").unwrap();
    // Each one with what it says when it fires, and with an empty list in the healthy run.
    let fires: BTreeSet<&str> = causes
        .split("alertname: ")
        .filter(|test| test.contains("exp_labels"))
        .filter_map(|test| test.split_whitespace().next())
        .collect();
    let quiet: BTreeSet<&str> = healthy
        .split("alertname: ")
        .skip(1)
        .filter_map(|test| test.split_whitespace().next())
        .collect();
    assert_eq!(alerts, fires);
    assert_eq!(alerts, quiet);
    assert!(!healthy.contains("exp_labels"));
}

#[test]
fn every_query_of_the_dashboard_is_understood() {
    let dashboard: Value = serde_json::from_str(&read("monitoring/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap().replace("$subnet", ".*"))
        .collect();
    assert!(queries.len() > 20, "{queries:?}");
    let rules: Vec<Value> = queries
        .iter()
        .enumerate()
        .map(|(number, query)| json!({"record": format!("query_{number}"), "expr": query}))
        .collect();
    // JSON is YAML.
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string();
    std::fs::write(file.path(), text).unwrap();
    run(promtool(&["check", "rules"]).arg(file.path()));
}

#[test]
fn the_scrape_configuration_is_understood() {
    let text = read("monitoring/prometheus.yaml");
    // Debian's build has no discovery by Kubernetes: all but that.
    let discovery = text.find("    kubernetes_sd_configs:").unwrap();
    let rest = text[discovery..].find("    relabel_configs:").unwrap();
    let text = format!("{}{}", &text[..discovery], &text[discovery + rest..]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("prometheus.yaml");
    std::fs::write(&file, text).unwrap();
    std::fs::copy(deploy("monitoring/rules.yaml"), directory.path().join("rules.yaml")).unwrap();
    run(promtool(&["check", "config"]).arg(file));
}
