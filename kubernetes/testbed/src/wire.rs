//! The wire between the nodes: a bridge in the network namespace of the cluster's process 1, with
//! one veth pair to the host and one to each node. The host has a single link; its other end is in
//! that namespace, so it is removed with it.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result};

use crate::component::POLL_INTERVAL;
use crate::process::Process;
use crate::shell;

/// 198.18.0.0/15 is reserved for tests of network devices. Wires use the upper half; `berth up`
/// uses the lower half for its virtual nodes.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    number: u8,
}

impl Wire {
    pub fn new(number: u8) -> Self {
        Self { number }
    }

    /// The name of the host's link.
    fn link(self) -> String {
        format!("berth{}", self.number)
    }

    /// Whether a wire of that number exists, maybe of another user of this machine.
    pub fn exists(self) -> bool {
        std::path::Path::new("/sys/class/net").join(self.link()).exists()
    }

    /// Waits for a limited time: another cluster may take the number at once.
    pub fn wait_until_gone(self) {
        for _ in 0..100 {
            if !self.exists() {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The host's address, where the API is served.
    pub fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 19, self.number, 1)
    }

    /// `node` counts from 1.
    pub fn node(self, node: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 19, self.number, 10 + node)
    }

    /// Creates the bridge, and connects the host.
    pub fn create(self, init: &Process) -> Result<()> {
        let link = self.link();
        let laid = || -> Result<()> {
            inside(init, "link add wire type bridge")?;
            inside(init, "link set wire up")?;
            shell::ip(&format!(
                "link add {link} type veth peer name host netns {}",
                init.pid()
            ))?;
            shell::ip(&format!("addr add {}/24 dev {link}", self.host()))?;
            shell::ip(&format!("link set {link} up"))?;
            inside(init, "link set host master wire up").map(drop)
        };
        laid().context("laying the wire between the nodes")
    }

    /// Connects a node as `eth0`. `process` is in the node's namespaces.
    pub fn connect(self, init: &Process, node: u8, process: &Process) -> Result<()> {
        let pid = process.pid();
        let plugged = || -> Result<()> {
            inside(
                init,
                &format!("link add node{node} type veth peer name eth0 netns {pid}"),
            )?;
            inside(init, &format!("link set node{node} master wire up"))?;
            inside(process, "link set lo up")?;
            inside(process, &format!("addr add {}/24 dev eth0", self.node(node)))?;
            // No other machine can have the address: duplicate detection would cost a second.
            inside(process, &format!("addr add {}/64 dev eth0 nodad", self.node_v6(node)))?;
            inside(process, "link set eth0 up")?;
            inside(process, &format!("route add default via {}", self.host())).map(drop)
        };
        plugged().with_context(|| format!("connecting node {node}"))
    }

    /// A unique local address.
    pub fn node_v6(self, node: u8) -> std::net::Ipv6Addr {
        let [number, node] = [u16::from(self.number), u16::from(10 + node)];
        std::net::Ipv6Addr::new(0xfd98, 0x19, number, 0, 0, 0, 0, node)
    }
}

/// `ip`, in the network namespace of a process.
fn inside(process: &Process, line: &str) -> Result<String> {
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={}", process.pid()));
    command.args(["--net", "--", "ip"]).args(line.split_whitespace());
    shell::run(&mut command)
}
