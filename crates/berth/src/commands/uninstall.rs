//! `berth uninstall`: removes what Berth's components left behind. The chart runs it when it is
//! uninstalled.

mod cluster;
mod node;
mod pod;

use anyhow::Result;
use berth_kit::args::CommonArgs;

/// Remove what Berth left on a node, or on all nodes and in the API of a cluster
#[derive(Debug, clap::Args)]
pub struct Uninstall {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    Node(node::Node),
    Cluster(cluster::Cluster),
}

impl Uninstall {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        match self.which {
            Which::Node(node) => node.run(),
            Which::Cluster(cluster) => cluster.run(common),
        }
    }
}
