//! How pod IPs are counted: flags of `berth scheduler` and of the controller `pod-ips`.

use berth_scheduler::{NoCidr, Settings};

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CountArgs {
    /// Addresses of each podCIDR that no pod gets: 2 for network and broadcast, 3 where host-local
    /// keeps a gateway
    #[arg(long, env = "BERTH_RESERVED_PER_CIDR", value_name = "N", default_value_t = 2)]
    reserved_per_cidr: u64,
    /// Whether a node with neither a podCIDR nor a NodeNetworkConfig takes pods
    #[arg(long, env = "BERTH_NO_CIDR", value_enum, default_value_t)]
    no_cidr: WithoutCidr,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum WithoutCidr {
    /// It takes every pod
    #[default]
    Pass,
    /// It takes none
    Fail,
}

impl CountArgs {
    pub fn settings(self) -> Settings {
        Settings {
            reserved_per_cidr: self.reserved_per_cidr,
            no_cidr: match self.no_cidr {
                WithoutCidr::Pass => NoCidr::Pass,
                WithoutCidr::Fail => NoCidr::Fail,
            },
        }
    }
}
