//! The command line: what all commands share, and which there are.

mod allocator;
mod controller;
mod crds;
mod store;
mod up;
mod version;

use anyhow::Result;
use berth_kit::args::CommonArgs;
use clap::{Parser, Subcommand};

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
    Controller(controller::Controller),
    Allocator(allocator::Allocator),
    Crds(crds::Crds),
    Version(version::Version),
}

impl Cli {
    pub fn run(self) -> Result<()> {
        berth_kit::logs::init(self.common.logs.log_format, &self.common.logs.log_level)?;
        match self.command {
            Command::Up(up) => up.run(&self.common),
            Command::Controller(controller) => controller.run(&self.common),
            Command::Allocator(allocator) => allocator.run(&self.common),
            Command::Crds(crds) => crds.run(),
            Command::Version(version) => version.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_flag_can_be_given_in_the_environment() {
        let mut command = Cli::command();
        command.build();
        let commands = std::iter::once(&command).chain(command.get_subcommands().filter(|c| c.get_name() != "help"));
        for arg in commands
            .flat_map(|c| c.get_arguments())
            .filter(|a| !matches!(a.get_id().as_str(), "help" | "version"))
        {
            let flag = arg.get_long().unwrap();
            let expected = format!("BERTH_{}", flag.to_uppercase().replace('-', "_"));
            let variable = arg.get_env().unwrap_or_else(|| panic!("--{flag} has none"));
            assert_eq!(variable, expected.as_str());
        }
    }
}
