//! Debian's Prometheus on a cluster with the chart, with our alerts and the queries of our
//! dashboard.

use berth_e2e::Seen;
use berth_e2e::prometheus::{Job, PendingPeriod, Prometheus, queries};

use crate::site::Site;

/// What has no series in this run: components that do not run here, and what has not happened.
/// `tests/agents/alerts.rs` has them all.
const WITHOUT_DATA: [&str; 5] = [
    "berth_machine_",
    "berth_scheduler_",
    "berth_subnet_pods_that_fit",
    "berth_subnet_waiters",
    "route_controller_",
];

pub fn start(site: &Site) -> Prometheus {
    let job = |component: &'static str, port: u16| {
        let nodes = site.nodes().iter().map(|node| format!("{}:{port}", node.address()));
        Job {
            component,
            targets: nodes.collect(),
        }
    };
    // Two controllers run on three nodes: the third target is down.
    let jobs = [job("agent", 10363), job("controller", 10360)];
    Prometheus::start(&site.scene, &jobs, PendingPeriod::AsWritten).unwrap()
}

/// All agents and controllers are scraped, the dashboard shows something, and nothing is wrong.
pub async fn is_watched(site: &Site, prometheus: &Prometheus) {
    let mut waiting = queries().unwrap();
    waiting.retain(|query| !WITHOUT_DATA.iter().any(|name| query.contains(name)));
    assert!(waiting.len() > 15, "{waiting:?}");
    waiting.push(format!(
        "count(up{{job=\"berth-agent\"}} == 1) == {}",
        site.nodes().len()
    ));
    waiting.push("count(up{job=\"berth-controller\"} == 1) == 2".to_owned());
    site.until("every query returns data", async || {
        Ok(match prometheus.without_data(&waiting) {
            Ok(without) if without.is_empty() => Seen::There,
            Ok(without) => {
                let seen = format!("{without:#?}");
                waiting = without;
                Seen::NotYet(seen)
            }
            // Prometheus takes a moment to start.
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await;
    let firing = prometheus.firing().unwrap();
    assert!(firing.is_empty(), "{firing:#?}");
    let critical = prometheus.query("ALERTS{severity=\"critical\"}").unwrap();
    assert!(critical.is_empty(), "{critical:#?}");
}
