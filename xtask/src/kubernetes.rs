//! `cargo xtask kubernetes`: a real cluster on this machine, for a developer. Tests use the library
//! behind it, berth-testbed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use berth_testbed::{Cluster, Entry, Network, POD_IMAGE, Programs, Registry, Seat};

/// The name of the one cluster for manual work.
const NAME: &str = "developer";

#[derive(Debug, clap::Subcommand)]
pub enum Kubernetes {
    /// Build etcd and Kubernetes from xtask/kubernetes; does nothing when they are built already.
    Build,
    /// Start a cluster, and leave it running.
    Up(Up),
    /// End the cluster and remove all of it.
    Down,
    /// Print what a shell needs to use the cluster: eval "$(cargo xtask kubernetes env)".
    Env,
}

#[derive(Debug, clap::Args)]
pub struct Up {
    /// How many nodes, each with its own kubelet and containerd. They need root.
    #[arg(long, default_value_t = 3, value_name = "N")]
    nodes: u8,
    /// No nodes: etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback.
    #[arg(long, conflicts_with_all = ["nodes", "cni_config", "cni_plugins"])]
    control_plane_only: bool,
    /// CNI configuration list for every node; $NODE, $NODE_IP and $POD_CIDR in it become the node's
    /// own. Default: ptp with host-local.
    #[arg(long, value_name = "FILE")]
    cni_config: Option<PathBuf>,
    /// Directory of CNI plugins. Default: those of Debian's containernetworking-plugins.
    #[arg(long, value_name = "DIRECTORY")]
    cni_plugins: Option<PathBuf>,
}

impl Kubernetes {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Build => {
                let programs = Programs::find_or_build(&|line| println!("{line}"))?;
                println!("{}", programs.directory().display());
            }
            Self::Up(up) => up.run()?,
            Self::Down => down()?,
            Self::Env => env()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Up {
    fn run(self) -> Result<()> {
        let start = Instant::now();
        let say = |line: &str| println!("{line}");
        let nodes = if self.control_plane_only { 0 } else { self.nodes };
        if let Some(entry) = Registry::open()?.find(NAME)? {
            ensure!(entry.record.detached, "another `up` is starting the cluster right now");
            let running = entry.record.nodes.len();
            ensure!(
                running == usize::from(nodes),
                "a cluster with {running} nodes is up: `cargo xtask kubernetes down` ends it"
            );
            println!("a cluster with {running} nodes is up already");
            return env();
        }
        let network = self.network()?;
        Programs::find_or_build(&say)?;
        let cluster = Cluster::named(NAME).nodes(nodes).network(network);
        let cluster = cluster.logs(berth_testbed::logs_of(NAME)?).say(&say).start()?;
        if self.cni_config.is_none() {
            cluster.route_pods()?;
        }
        cluster.detach()?;
        println!("up after {:.1} s", start.elapsed().as_secs_f64());
        env()
    }

    fn network(&self) -> Result<impl Fn(&Seat) -> Network + Sync + use<>> {
        let template = self.cni_config.as_ref().map(|path| {
            std::fs::read_to_string(path)
                .with_context(|| format!("--cni-config: reading {}", path.display()))
        });
        let template = template.transpose()?;
        if let Some(template) = &template {
            check(template).context("--cni-config")?;
        }
        let plugins = self.cni_plugins.clone();
        if let Some(directory) = &plugins {
            ensure!(
                directory.join("loopback").exists(),
                "--cni-plugins: {} has no loopback, which containerd calls for every pod",
                directory.display()
            );
        }
        Ok(move |seat: &Seat| {
            let mut network = Network::ptp(seat);
            if let Some(template) = &template {
                network.configuration = Some(filled(template, seat));
            }
            if let Some(directory) = &plugins {
                network.plugins.clone_from(directory);
            }
            network
        })
    }
}

fn check(template: &str) -> Result<()> {
    let list: serde_json::Value = serde_json::from_str(template).context("not JSON")?;
    ensure!(
        list["plugins"].is_array(),
        "plugins: missing: a configuration list has an array of them"
    );
    Ok(())
}

/// The longer name first: a shorter one is its prefix.
fn filled(template: &str, seat: &Seat) -> String {
    template
        .replace("$NODE_IP", &seat.address.to_string())
        .replace("$NODE", &seat.node)
        .replace("$POD_CIDR", &seat.pods)
}

fn down() -> Result<()> {
    let registry = Registry::open()?;
    match registry.find(NAME)? {
        Some(entry) => {
            let start = Instant::now();
            registry.remove(&entry)?;
            println!("down after {:.1} s", start.elapsed().as_secs_f64());
        }
        None => println!("no cluster is up"),
    }
    Ok(())
}

fn env() -> Result<()> {
    let Some(entry) = Registry::open()?.find(NAME)? else {
        bail!("no cluster is up: `cargo xtask kubernetes up` starts one");
    };
    print!("{}", exports(&entry)?);
    Ok(())
}

/// Exports for a shell, with comments for people.
fn exports(entry: &Entry) -> Result<String> {
    let programs = Programs::find()?;
    let mut text = format!(
        "export KUBECONFIG='{}'\nexport PATH='{}':\"$PATH\"\n",
        entry.kubeconfig().display(),
        programs.directory().display()
    );
    text += &format!("# logs: {}\n", entry.record.logs.display());
    for (name, process) in &entry.record.nodes {
        text += &format!("# a shell on {name}: nsenter --target={} --all\n", process.pid());
    }
    if !entry.record.nodes.is_empty() {
        text += &format!("# an image for pods, with imagePullPolicy Never: {POD_IMAGE}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn each_node_gets_its_own_values() {
        let seat = Seat {
            node: "node-2".to_owned(),
            number: 2,
            address: Ipv4Addr::new(198, 19, 0, 12),
            address_v6: Ipv6Addr::LOCALHOST,
            pods: "10.244.2.0/24".to_owned(),
        };
        assert_eq!(
            filled("$NODE $NODE_IP $POD_CIDR", &seat),
            "node-2 198.19.0.12 10.244.2.0/24"
        );
    }

    #[test]
    fn an_invalid_cni_configuration_is_refused() {
        let said = |text| format!("{:#}", check(text).unwrap_err());
        assert!(said("plugins: []").starts_with("not JSON"));
        assert!(said("{\"type\": \"ptp\"}").starts_with("plugins: missing"));
        check("{\"plugins\": []}").unwrap();
    }
}
