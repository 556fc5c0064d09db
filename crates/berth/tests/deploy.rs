//! What `deploy/` and the command line say of each other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_agent::AgentMetrics;
use berth_kit::events::EventMetrics;
use berth_kit::lease::ElectionMetrics;
use berth_kit::queue::QueueMetrics;
use berth_ledger::LedgerMetrics;
use berth_machines::metrics::{GateMetrics, MachineMetrics};
use berth_nodenet::controllers::ControllerMetrics;
use berth_routes::controller::RouteMetrics;
use berth_scheduler::SchedulerMetrics;
use prometheus_client::registry::Registry;

fn monitoring(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/monitoring")
        .join(file)
}

/// All that any component registers.
fn registered() -> BTreeSet<String> {
    let mut registry = Registry::default();
    let queues = QueueMetrics::register(&mut registry);
    let events = EventMetrics::register(&mut registry);
    AgentMetrics::register(&mut registry);
    ElectionMetrics::register(&mut registry);
    LedgerMetrics::register(&mut registry);
    MachineMetrics::register(&mut registry);
    GateMetrics::register(&mut registry);
    SchedulerMetrics::register(&mut registry);
    ControllerMetrics::register(&mut registry, queues.clone(), events.clone());
    RouteMetrics::register(&mut registry, queues, events);
    // Families without a series are not in the text that is scraped.
    let shown = format!("{registry:?}");
    let names = shown
        .split("name: \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    names.map(str::to_owned).collect()
}

/// As a query names them, without what a histogram or a counter adds.
fn used(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let prefixes = ["berth_", "workqueue_", "route_controller_", "leader_election_"];
    let metrics = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
    let plain = |word: &str| {
        let suffixes = ["_bucket", "_count", "_sum", "_total", "_info"];
        let base = suffixes.iter().find_map(|suffix| word.strip_suffix(suffix));
        base.unwrap_or(word).to_owned()
    };
    metrics.map(plain).collect()
}

#[test]
fn every_metric_of_alerts_and_dashboard_is_one_that_we_have() {
    let registered = registered();
    assert!(registered.contains("berth_agent_addresses"), "{registered:?}");
    for (file, least) in [("rules.yaml", 10), ("rules_test.yaml", 10), ("dashboard.json", 20)] {
        let used = used(&std::fs::read_to_string(monitoring(file)).unwrap());
        assert!(used.len() >= least, "{file}: {used:?}");
        let unknown: Vec<&String> = used.difference(&registered).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?} of {registered:?}");
    }
}

fn berth(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_berth")).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn shells_complete_commands_and_flags() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = berth(&["completion", shell]);
        for word in ["machine-ipam", "install-cni", "uninstall"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let bash = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bash.path(), berth(&["completion", "bash"])).unwrap();
    let checked = Command::new("bash").arg("-n").arg(bash.path()).status().unwrap();
    assert!(checked.success());
}

#[test]
fn every_command_has_a_manual_page_with_its_flags() {
    let directory = tempfile::tempdir().unwrap();
    berth(&["man", directory.path().to_str().unwrap()]);
    let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let help = berth(&["--help"]);
    let commands = help
        .split("Commands:")
        .nth(1)
        .unwrap()
        .split("Options:")
        .next()
        .unwrap();
    let commands = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 12, "{names:?}");
    for name in names.iter().filter(|name| **name != "help") {
        assert!(page(&format!("berth-{name}.1")).contains(".TH"), "{name}");
    }
    assert!(page("berth-agent.1").contains("reclaim\\-grace"));
    assert!(page("berth-uninstall-node.1").contains("purge"));
}
