//! `cargo xtask`: tests, checks, generates and measures the workspace.

mod bench;
mod browser;
mod cargo;
mod codegen;
mod crates;
mod kubernetes;
mod lint;
mod plugins;
mod test;

use std::process::ExitCode;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Command {
    /// Run the tests, all of them or the named parts.
    Test(test::Test),
    /// Write deploy/crds from the types in berth-api, and the tables in docs from the program.
    Codegen {
        /// Write nothing; fail and name the files that differ.
        #[arg(long)]
        check: bool,
    },
    /// Print the crates, their lines and what they use, the lowest first.
    Crates,
    /// Check what no compiler does: module cycles, wings, features, words, widths and test names.
    Lint,
    /// A real cluster on this machine.
    #[command(subcommand)]
    Kubernetes(kubernetes::Kubernetes),
    /// Build the CNI plugins as nodes get them, and print where they are.
    Plugins,
    /// Measure, and print a table of figures.
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Test(test) => test.run(),
        Command::Codegen { check } => codegen::run(check).map(|()| ExitCode::SUCCESS),
        Command::Crates => crates::print().map(|()| ExitCode::SUCCESS),
        Command::Lint => lint::run(),
        Command::Kubernetes(kubernetes) => kubernetes.run(),
        Command::Plugins => plugins::run(),
        Command::Bench(bench) => bench.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("cargo xtask: {error:#}");
        ExitCode::FAILURE
    })
}
