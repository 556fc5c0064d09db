//! `cargo xtask bench NAME`: a table of figures on stdout, and with `--json` one JSON object as the
//! last line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use berth_testbed::{Programs, peers};
use clap::ValueEnum;

use crate::cargo::{cargo, exit_code, target_directory};
use crate::{browser, plugins};

#[derive(Debug, clap::Args)]
pub struct Bench {
    name: Name,
    /// Print the figures once more, as one JSON object on the last line.
    #[arg(long)]
    json: bool,
    /// For the benchmark itself, after `--`: sizes, for example.
    #[arg(last = true)]
    flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// The embedded API: writes, watches, lists, memory; and the same of kube-apiserver with etcd.
    Api,
    /// The ledger: leases and releases in memory and on disk, memory.
    Ledger,
    /// 5,000 nodes that join at once, on kube-apiserver and etcd.
    Join,
    /// The CNI plugins and the agent behind them; and host-local and ptp.
    Cni,
    /// The route controller, and upstream's.
    Routes,
    /// kube-scheduler alone, with the extender and by the extended resource.
    Scheduler,
    /// Machines and Cluster API's claims; and the in-cluster provider.
    Machines,
    /// The dashboard of 5,000 nodes with a million addresses, in Chromium.
    Dashboard,
}

impl Bench {
    pub fn run(self) -> Result<ExitCode> {
        let mut command = cargo();
        match self.name {
            Name::Api => {
                command.env("BERTH_PROGRAM", build_berth()?);
                build_kubernetes()?;
                command.args(["bench", "--package", "berth-apiserver", "--bench", "api", "--"]);
            }
            Name::Join => {
                command.env("BERTH_PROGRAM", build_berth()?);
                build_kubernetes()?;
                command.args(["bench", "--package", "berth-e2e", "--bench", "join", "--"]);
            }
            Name::Cni => {
                command.env("BERTH_PROGRAM", build_berth()?);
                command.env("BERTH_PLUGINS", plugins::build()?);
                peers::build_host_local(&|line| eprintln!("{line}"))?;
                command.args(["bench", "--package", "berth-e2e", "--bench", "cni", "--"]);
            }
            Name::Routes => {
                command.env("BERTH_PROGRAM", build_berth()?);
                build_kubernetes()?;
                peers::build_cloud_provider(&|line| eprintln!("{line}"))?;
                command.args(["bench", "--package", "berth-routes", "--bench", "routes", "--"]);
            }
            Name::Scheduler => {
                command.env("BERTH_PROGRAM", build_berth()?);
                build_kubernetes()?;
                command.args(["bench", "--package", "berth-e2e", "--bench", "scheduler", "--"]);
            }
            Name::Machines => {
                command.env("BERTH_PROGRAM", build_berth()?);
                build_kubernetes()?;
                peers::build_in_cluster(&|line| eprintln!("{line}"))?;
                command.args(["bench", "--package", "berth-e2e", "--bench", "machines", "--"]);
            }
            Name::Dashboard => {
                command.env("BERTH_PROGRAM", build_berth()?);
                build_kubernetes()?;
                browser::set_up(&|line| eprintln!("{line}"))?;
                command.args(["bench", "--package", "berth-e2e", "--bench", "dashboard", "--"]);
            }
            Name::Ledger => {
                command.args(["bench", "--package", "berth-ledger", "--bench", "ledger", "--"]);
            }
        }
        if self.json {
            command.arg("--json");
        }
        command.args(&self.flags);
        command.status().map(exit_code).context("starting cargo bench")
    }
}

/// Builds Kubernetes if this machine can. Otherwise the benchmark says what it leaves out.
fn build_kubernetes() -> Result<()> {
    if Programs::obstacle().is_none() {
        Programs::find_or_build(&|line| eprintln!("{line}"))?;
    }
    Ok(())
}

/// Builds `berth` with the release profile, as a user runs it.
fn build_berth() -> Result<PathBuf> {
    let built = cargo().args(["build", "--release", "--package", "berth"]).status();
    ensure!(
        built.context("starting cargo build")?.success(),
        "berth could not be built"
    );
    Ok(target_directory()?.join("release/berth"))
}
