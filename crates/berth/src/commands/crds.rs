use std::io::Write;

use anyhow::{Context, Result};

/// Print all CustomResourceDefinitions as YAML, for `kubectl apply -f -`
#[derive(Debug, clap::Args)]
pub struct Crds {}

impl Crds {
    pub fn run(self) -> Result<()> {
        let yaml = berth_api::crds::yaml()?;
        std::io::stdout()
            .write_all(yaml.as_bytes())
            .context("writing to stdout")
    }
}
