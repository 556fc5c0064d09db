//! Debian's Prometheus beside a cluster, with our alerts and the queries of our Grafana dashboard.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use berth_testbed::free_port;
use serde_json::{Value, json};

use crate::scene::Scene;

/// Ends when it is dropped.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    url: String,
    _directory: tempfile::TempDir,
}

/// How long an alert's cause must last before the alert fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingPeriod {
    /// As `rules.yaml` says.
    AsWritten,
    /// For tests that make the cause and wait for the alert.
    OneSecond,
}

/// A component and where its processes serve their metrics. Jobs are named as
/// `deploy/monitoring/prometheus.yaml` names them.
#[derive(Clone, Debug)]
pub struct Job {
    pub component: &'static str,
    pub targets: Vec<String>,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    pub fn start(scene: &Scene, jobs: &[Job], pending: PendingPeriod) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let rules = directory.path().join("rules.yaml");
        std::fs::write(&rules, rules_with(pending)?)?;
        let job = |Job { component, targets }: &Job| {
            json!({
                "job_name": format!("berth-{component}"),
                "static_configs": [{"targets": targets}],
            })
        };
        let configuration = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": jobs.iter().map(job).collect::<Vec<_>>(),
        });
        // JSON is YAML.
        let file = directory.path().join("prometheus.yaml");
        std::fs::write(&file, configuration.to_string())?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let data = directory.path().join("data");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(File::create(scene.cluster.logs().join("prometheus.log"))?)
            .spawn()
            .context("starting prometheus")?;
        Ok(Self {
            child,
            url: format!("http://{address}"),
            _directory: directory,
        })
    }

    /// The series that a query gives, as text.
    pub fn query(&self, query: &str) -> Result<Vec<String>> {
        let output = Command::new("promtool")
            .args(["query", "instant", &self.url, query])
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{query}: {}: {errors}", output.status);
        let said = String::from_utf8(output.stdout)?;
        // Without a series promtool prints an empty line.
        let lines = said.lines().filter(|line| !line.is_empty());
        Ok(lines.map(str::to_owned).collect())
    }

    /// The names of all alerts that fire.
    pub fn firing(&self) -> Result<BTreeSet<String>> {
        let lines = self.query("ALERTS{alertstate=\"firing\"}")?;
        let name = |line: &String| {
            let (_, rest) = line.split_once("alertname=\"")?;
            rest.split_once('"').map(|(name, _)| name.to_owned())
        };
        Ok(lines.iter().filter_map(name).collect())
    }

    /// Of these queries, those that return nothing.
    pub fn without_data(&self, queries: &[String]) -> Result<Vec<String>> {
        let mut without = Vec::new();
        for query in queries {
            if self.query(query)?.is_empty() {
                without.push(query.clone());
            }
        }
        Ok(without)
    }
}

/// The names of all alerts.
pub fn alerts() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(monitoring("rules.yaml"))?;
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    Ok(names.map(str::to_owned).collect())
}

/// All queries of the Grafana dashboard, for every Subnet.
pub fn queries() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(monitoring("dashboard.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    let panels = dashboard["panels"].as_array().context("panels")?;
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.filter_map(|target| target["expr"].as_str());
    Ok(queries.map(|query| query.replace("$subnet", ".*")).collect())
}

fn rules_with(pending: PendingPeriod) -> Result<String> {
    let text = std::fs::read_to_string(monitoring("rules.yaml"))?;
    let line = |line: &str| match line.trim_start().strip_prefix("for: ") {
        Some(_) if pending == PendingPeriod::OneSecond => {
            let indent = line.len() - line.trim_start().len();
            format!("{}for: 1s\n", &line[..indent])
        }
        _ => format!("{line}\n"),
    };
    Ok(text.lines().map(line).collect())
}

fn monitoring(file: &str) -> PathBuf {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/monitoring");
    deploy.join(file)
}
