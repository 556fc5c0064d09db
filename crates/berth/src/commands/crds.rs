use std::io::Write;

use anyhow::{Context, Result};

/// Print all CustomResourceDefinitions as YAML, for `kubectl apply -f -`
#[derive(Debug, clap::Args)]
pub struct Crds {
    #[command(subcommand)]
    which: Option<Which>,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// Those of Machine, in both shapes, and of Cluster, for clusters that have none
    Machines,
}

impl Crds {
    pub fn run(self) -> Result<()> {
        let yaml = match self.which {
            None => berth_api::crds::yaml()?,
            Some(Which::Machines) => berth_api::crds::machines_yaml()?,
        };
        std::io::stdout()
            .write_all(yaml.as_bytes())
            .context("writing to stdout")
    }
}
