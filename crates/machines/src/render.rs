//! Provisioning documents: what a machine's operating system reads at its first start. Pure.
//!
//! | system | document | network in it |
//! | --- | --- | --- |
//! | Ubuntu | cloud-init | netplan |
//! | CentOS | cloud-init | NetworkManager keyfile |
//! | CentOS 7 | cloud-init | ifcfg |
//! | CoreOS | Ignition 3 | NetworkManager keyfile |
//! | Flatcar | Ignition 3 | networkd unit |
//!
//! A machine without a network says nothing about it, and its system uses DHCP as it always did. A
//! machine with one uses no DHCP at all. A gateway outside of the address's network gets a route of
//! its own first: `192.168.1.129/25` with the gateway `192.168.1.1` works.

mod cloud_init;
mod ifcfg;
mod ignition;
mod keyfile;
mod netplan;
mod networkd;

use std::fmt;
use std::str::FromStr;

use crate::machine::{Machine, MachineError};

pub use netplan::netplan;

/// Which operating system a machine gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Os {
    Ubuntu,
    CentOs,
    CentOs7,
    CoreOs,
    Flatcar,
}

impl Os {
    pub const ALL: [Self; 5] =
        [Self::Ubuntu, Self::CentOs, Self::CentOs7, Self::CoreOs, Self::Flatcar];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ubuntu => "ubuntu",
            Self::CentOs => "centos",
            Self::CentOs7 => "centos7",
            Self::CoreOs => "coreos",
            Self::Flatcar => "flatcar",
        }
    }
}

impl fmt::Display for Os {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// We have no document for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no document for {name:?}: use one of {}", Os::ALL.map(Os::name).join(", "))]
pub struct UnknownOs {
    name: String,
}

impl FromStr for Os {
    type Err = UnknownOs;

    fn from_str(name: &str) -> Result<Self, UnknownOs> {
        let found = Self::ALL.into_iter().find(|os| os.name() == name);
        found.ok_or_else(|| UnknownOs { name: name.to_owned() })
    }
}

/// A file of the machine, as a document brings it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub path: String,
    /// Whether only its owner may read it: some tools refuse a file that others could have written.
    pub private: bool,
    pub content: String,
}

/// The document for a machine, to be handed to it as its user data.
pub fn document(machine: &Machine, os: Os) -> Result<String, MachineError> {
    let network = machine.network.clone()?;
    let hostname = machine.hostname();
    if !is_hostname(hostname) {
        let name = hostname.to_owned();
        return Err(MachineError::Hostname { name });
    }
    let keys = machine.ssh_keys();
    let files = network.as_ref().map(|network| match os {
        Os::Ubuntu => netplan::files(network),
        Os::CentOs | Os::CoreOs => vec![keyfile::file(network)],
        Os::CentOs7 => ifcfg::files(network),
        Os::Flatcar => vec![networkd::file(network)],
    });
    let files = files.unwrap_or_default();
    Ok(match os {
        Os::Ubuntu => cloud_init::document(hostname, &keys, &files, netplan::COMMANDS),
        Os::CentOs => cloud_init::document(hostname, &keys, &files, keyfile::COMMANDS),
        Os::CentOs7 => cloud_init::document(hostname, &keys, &files, ifcfg::COMMANDS),
        Os::CoreOs | Os::Flatcar => ignition::document(hostname, &keys, &files),
    })
}

fn is_hostname(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let ends = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&name.len())
        && name.chars().all(plain)
        && name.starts_with(ends)
        && name.ends_with(ends)
}

#[cfg(test)]
mod tests;
