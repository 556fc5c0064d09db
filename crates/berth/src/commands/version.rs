use std::io::Write;

use anyhow::{Context, Result};

/// Print the version
#[derive(Debug, clap::Args)]
pub struct Version {}

impl Version {
    pub fn run(self) -> Result<()> {
        writeln!(std::io::stdout(), "berth {}", env!("CARGO_PKG_VERSION"))
            .context("writing to stdout")
    }
}
