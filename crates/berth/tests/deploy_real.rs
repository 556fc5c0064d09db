//! What `deploy/` has for programs of others, checked by those: promtool and systemd.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{command:?}: {said}{errors}");
}

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

#[test]
fn systemd_understands_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("left out: systemd_understands_the_units: there is no systemd-analyze");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for unit in ["agent", "allocator", "controller"].map(|name| format!("berth-{name}.service")) {
        let text = read(&format!("systemd/{unit}"));
        let place = "/usr/local/bin/berth";
        assert!(text.contains(&format!("ExecStart={place} ")), "{text}");
        let program = env!("CARGO_BIN_EXE_berth");
        let file = directory.path().join(&unit);
        std::fs::write(&file, text.replace(place, program)).unwrap();
        let mut command = Command::new("systemd-analyze");
        let output = command.args(["verify", "--man=no"]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // It also tells of units of the machine that are not ours.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("berth-")).collect();
        assert!(output.status.success() && ours.is_empty(), "{said}");
        // Its flags are flags of that command.
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words = line.split_whitespace().skip(1).chain(["--help"]);
        run(Command::new(program).args(words));
    }
}
