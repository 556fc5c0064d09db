use std::io::Write;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;

/// Print what a shell completes commands and flags by
#[derive(Debug, clap::Args)]
pub struct Completion {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    pub fn run(self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "berth", &mut script);
        std::io::stdout().write_all(&script).context("writing to stdout")
    }
}
