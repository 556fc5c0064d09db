//! The command line: its commands, and what all of them share.

mod agent;
mod allocator;
mod check;
mod completion;
mod controller;
mod count;
mod crds;
mod dashboard;
mod explain;
mod machine_ipam;
mod man;
mod output;
#[cfg(test)]
mod reference;
mod render;
mod routes;
mod scheduler;
mod status;
mod store;
mod uninstall;
mod up;
mod version;

use std::time::Duration;

use anyhow::Result;
use berth_api::subnet::parse_duration;
use berth_kit::args::{CommonArgs, LogArgs};
use berth_kit::logs::{self, Filter};
use clap::{Parser, Subcommand};

pub use machine_ipam::with_two_dashes;

/// IP addresses for every pod, node and machine of a Kubernetes cluster
#[derive(Debug, Parser)]
#[command(name = "berth", version)]
pub struct Cli {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Up),
    // It has many more flags than the others.
    Controller(Box<controller::Controller>),
    Allocator(allocator::Allocator),
    Agent(agent::Agent),
    Scheduler(scheduler::Scheduler),
    MachineIpam(machine_ipam::MachineIpam),
    Dashboard(dashboard::Dashboard),
    Status(status::Status),
    Explain(explain::Explain),
    Check(check::Check),
    Render(render::Render),
    Crds(crds::Crds),
    Uninstall(uninstall::Uninstall),
    Completion(completion::Completion),
    Man(man::Man),
    Version(version::Version),
}

impl Command {
    /// A person watches the terminal of `berth up`: the log of its controllers and agents would
    /// bury the lines for that person.
    fn log_level(&self) -> Filter {
        match self {
            Self::Up(_) => {
                let quiet = ["berth_agent", "berth_kit::lease", "berth_machines", "berth_nodenet"];
                Filter::with_warnings_of(&quiet)
            }
            // A failed request to an agent is reported in one line by the command itself.
            Self::Check(_) => Filter::without(&["kube_client::client::builder"]),
            _ => Filter::default(),
        }
    }
}

impl Cli {
    pub fn run(self) -> Result<()> {
        let LogArgs { log_format, log_level } = &self.common.logs;
        let filter = log_level.clone().unwrap_or_else(|| self.command.log_level());
        logs::init(*log_format, &filter)?;
        match self.command {
            Command::Up(up) => up.run(&self.common),
            Command::Controller(controller) => controller.run(&self.common),
            Command::Allocator(allocator) => allocator.run(&self.common),
            Command::Agent(agent) => agent.run(&self.common),
            Command::Scheduler(scheduler) => scheduler.run(&self.common),
            Command::MachineIpam(machines) => machines.run(&self.common),
            Command::Dashboard(dashboard) => dashboard.run(&self.common),
            Command::Status(status) => status.run(&self.common),
            Command::Explain(explain) => explain.run(&self.common),
            Command::Check(check) => check.run(&self.common),
            Command::Render(render) => render.run(),
            Command::Crds(crds) => crds.run(),
            Command::Uninstall(uninstall) => uninstall.run(&self.common),
            Command::Completion(completion) => completion.run(),
            Command::Man(man) => man.run(),
            Command::Version(version) => version.run(),
        }
    }
}

/// For flags.
fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write it like 30s or 5m, at most 24h".to_owned())
}

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_flag_can_be_given_in_the_environment() {
        let mut command = Cli::command();
        command.build();
        let commands = std::iter::once(&command)
            .chain(command.get_subcommands().filter(|c| c.get_name() != "help"));
        for arg in commands
            .flat_map(|c| c.get_arguments())
            .filter(|a| !matches!(a.get_id().as_str(), "help" | "version"))
            .filter(|a| !a.is_positional())
        {
            let flag = arg.get_long().unwrap();
            let expected = format!("BERTH_{}", flag.to_uppercase().replace('-', "_"));
            let variable = arg.get_env().unwrap_or_else(|| panic!("--{flag} has none"));
            assert_eq!(variable, expected.as_str());
        }
    }
}
