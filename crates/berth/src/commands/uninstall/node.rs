//! `berth uninstall node`: on the node itself.

use std::path::PathBuf;

use anyhow::Result;
use berth_agent::install::{DEFAULT_BIN_DIR, DEFAULT_CONF_DIR, Directories};
use berth_api::names::DEFAULT_STATE_DIR;

/// Remove conf and plugins from this node, and with --purge who has which address here
#[derive(Debug, clap::Args)]
pub struct Node {
    /// Where the container runtime looks for plugins
    #[arg(long, env = "BERTH_CNI_BIN_DIR", value_name = "DIR", default_value = DEFAULT_BIN_DIR)]
    cni_bin_dir: PathBuf,
    /// Where the container runtime looks for its network configuration
    #[arg(long, env = "BERTH_CNI_CONF_DIR", value_name = "DIR", default_value = DEFAULT_CONF_DIR)]
    cni_conf_dir: PathBuf,
    /// Also remove the journal, the release queue and the socket; refused while an agent uses them
    #[arg(long, env = "BERTH_PURGE")]
    purge: bool,
    /// Where the journal is kept, for --purge
    #[arg(long, env = "BERTH_STATE_DIR", value_name = "DIR", default_value = DEFAULT_STATE_DIR)]
    state_dir: PathBuf,
    /// Where socket and locks are, for --purge
    #[arg(long, env = "BERTH_RUN_DIR", value_name = "DIR", default_value = "/run/berth")]
    run_dir: PathBuf,
}

impl Node {
    pub fn run(self) -> Result<()> {
        Directories::new(self.cni_bin_dir, self.cni_conf_dir).uninstall()?;
        if self.purge {
            berth_agent::purge(&self.state_dir, &self.run_dir)?;
        }
        Ok(())
    }
}
