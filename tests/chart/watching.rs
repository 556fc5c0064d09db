//! Debian's Prometheus on a cluster that the chart has made, with our alerts and the queries of our
//! dashboard.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use berth_e2e::Seen;
use berth_testbed::free_port;
use serde_json::{Value, json};

use crate::helm::tried;
use crate::site::Site;

/// What has no series in this run: components that do not run here, and what has not happened.
const WITHOUT_DATA: [&str; 6] = [
    "berth_events_unwritten",
    "berth_machine_",
    "berth_scheduler_",
    "berth_subnet_pods_that_fit",
    "berth_subnet_waiters",
    "route_controller_",
];

pub struct Prometheus {
    child: Child,
    url: String,
    _directory: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Jobs are named as `deploy/monitoring/prometheus.yaml` names them.
    pub fn start(site: &Site) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let job = |component: &str, port: u16| {
            let nodes = site.nodes().iter().map(|node| format!("{}:{port}", node.address()));
            json!({
                "job_name": format!("berth-{component}"),
                "static_configs": [{"targets": nodes.collect::<Vec<_>>()}],
            })
        };
        let configuration = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [monitoring("rules.yaml")],
            // Two controllers run on three nodes: the third is not there.
            "scrape_configs": [job("agent", 10363), job("controller", 10360)],
        });
        // JSON is YAML.
        let file = directory.path().join("prometheus.yaml");
        std::fs::write(&file, configuration.to_string()).unwrap();
        let address = format!("127.0.0.1:{}", free_port().unwrap());
        let log = std::fs::File::create(site.scene.cluster.logs().join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            url: format!("http://{address}"),
            _directory: directory,
        }
    }

    /// The series that a query gives, as text.
    fn query(&self, query: &str) -> anyhow::Result<Vec<String>> {
        let words = ["query", "instant", &self.url, query];
        let said = tried(Command::new("promtool").args(words))?;
        // Where there is none it prints an empty line.
        let lines = said.lines().filter(|line| !line.is_empty());
        Ok(lines.map(str::to_owned).collect())
    }
}

fn monitoring(file: &str) -> String {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/monitoring");
    deploy.join(file).canonicalize().unwrap().display().to_string()
}

fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(monitoring("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let all = targets.map(|target| target["expr"].as_str().unwrap().replace("$subnet", ".*"));
    all.filter(|query| !WITHOUT_DATA.iter().any(|name| query.contains(name)))
        .collect()
}

/// All agents and controllers are scraped, the dashboard shows something, and nothing is wrong.
pub async fn is_watched(site: &Site, prometheus: &Prometheus) {
    let mut waiting = queries();
    assert!(waiting.len() > 15, "{waiting:?}");
    waiting.push(format!(
        "count(up{{job=\"berth-agent\"}} == 1) == {}",
        site.nodes().len()
    ));
    waiting.push("count(up{job=\"berth-controller\"} == 1) == 2".to_owned());
    site.until("every query returns data", async || {
        let mut left = Vec::new();
        for query in &waiting {
            match prometheus.query(query) {
                Ok(series) if !series.is_empty() => {}
                Ok(_) => left.push(query.clone()),
                // It takes a moment to start.
                Err(error) => return Ok(Seen::NotYet(error.to_string())),
            }
        }
        waiting = left;
        Ok(if waiting.is_empty() {
            Seen::There
        } else {
            Seen::NotYet(format!("{waiting:#?}"))
        })
    })
    .await;
    let rules = prometheus.query("ALERTS{alertstate=\"firing\"}").unwrap();
    assert!(rules.is_empty(), "{rules:#?}");
    let critical = prometheus.query("ALERTS{severity=\"critical\"}").unwrap();
    assert!(critical.is_empty(), "{critical:#?}");
}
