//! Tables of metrics, from the scrape of each process's registry.

use std::collections::BTreeMap;
use std::fmt::Write;

use berth_agent::AgentMetrics;
use berth_kit::events::EventMetrics;
use berth_kit::lease::ElectionMetrics;
use berth_kit::metrics::Metrics;
use berth_kit::queue::QueueMetrics;
use berth_ledger::LedgerMetrics;
use berth_machines::metrics::{GateMetrics, MachineMetrics, Review};
use berth_nodenet::controllers::ControllerMetrics;
use berth_nodenet::service::ServiceMetrics;
use berth_routes::controller::RouteMetrics;
use berth_scheduler::SchedulerMetrics;

/// The components with their own table. `process` is what every process has, `loops` what those
/// with queues and events have.
pub const COMPONENTS: [&str; 10] = [
    "process",
    "loops",
    "election",
    "ledger",
    "controller",
    "allocator",
    "agent",
    "scheduler",
    "routes",
    "machines",
];

/// A row for each family.
pub fn of(component: &str) -> String {
    let metrics = registered(component);
    let mut table = "| metric | type | what it says |\n| --- | --- | --- |\n".to_owned();
    for family in families(&metrics.encode().unwrap()) {
        let is_of_all = family.name == "berth_build_info";
        if is_of_all == (component == "process") {
            writeln!(table, "| `{}` | {} | {} |", family.shown(), family.kind, family.help)
                .unwrap();
        }
    }
    table
}

/// A registry with only this component, and a sample in each family.
fn registered(component: &str) -> Metrics {
    let metrics = Metrics::new("");
    match component {
        "process" => {}
        "loops" => {
            metrics.share(QueueMetrics::register).sample();
            drop(metrics.share(EventMetrics::register));
        }
        "election" => metrics.register(ElectionMetrics::register).sample(),
        "ledger" => metrics.register(LedgerMetrics::register).sample(),
        "controller" => {
            let (queues, events) = elsewhere();
            let made = metrics.register(|all| ControllerMetrics::register(all, queues, events));
            made.sample();
        }
        "allocator" => ServiceMetrics::register(&metrics).sample(),
        "agent" => metrics.register(AgentMetrics::register).sample(),
        "scheduler" => metrics.register(SchedulerMetrics::register).sample(),
        "routes" => {
            let (queues, events) = elsewhere();
            metrics
                .register(|all| RouteMetrics::register(all, queues, events))
                .sample();
        }
        "machines" => {
            metrics.register(MachineMetrics::register).sample();
            metrics.register(GateMetrics::register).count(Review::Gated);
        }
        _ => panic!("there are no metrics of {component}"),
    }
    metrics
}

/// The metrics of the process, which have their own table.
fn elsewhere() -> (QueueMetrics, EventMetrics) {
    let other = Metrics::new("");
    (other.share(QueueMetrics::register), other.share(EventMetrics::register))
}

struct Family {
    /// The name for queries, so with `_total` for a counter.
    name: String,
    kind: String,
    help: String,
    labels: Vec<String>,
}

impl Family {
    fn shown(&self) -> String {
        if self.labels.is_empty() {
            return self.name.clone();
        }
        format!("{}{{{}}}", self.name, self.labels.join(","))
    }
}

/// Reads the families from the text of a scrape, by name.
fn families(text: &str) -> Vec<Family> {
    let mut found: BTreeMap<String, Family> = BTreeMap::new();
    let mut help = "";
    let mut last = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').unwrap().1.trim_end_matches('.');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let family = Family {
                name: format!("{name}{suffix}"),
                kind: kind.to_owned(),
                help: help.to_owned(),
                labels: Vec::new(),
            };
            name.clone_into(&mut last);
            found.insert(last.clone(), family);
        } else if let Some((_, rest)) = line.split_once('{') {
            let (labels, _) = rest.split_once('}').unwrap();
            let names = labels.split(',').filter_map(|label| label.split_once('='));
            let names = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le");
            found.get_mut(&last).unwrap().labels = names.collect();
        }
    }
    found.into_values().collect()
}

/// Otherwise a family without a sample would silently be missing from the tables.
#[test]
fn every_registered_family_has_a_sample() {
    for component in COMPONENTS {
        let metrics = registered(component);
        let debug = format!("{metrics:?}");
        let registered = debug.split("Descriptor { name: \"").skip(1);
        let registered: Vec<&str> =
            registered.map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(!registered.is_empty(), "{debug}");
        let text = metrics.encode().unwrap();
        for name in registered {
            assert!(
                text.contains(&format!("# TYPE {name} ")),
                "{component}: {name} has none"
            );
        }
    }
}
