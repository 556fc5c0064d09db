//! GC: removes all that belongs to no valid attachment, on this node and at the agent.

use std::collections::BTreeSet;

use berth_api::cni::{Alias, CniError, Conf};
use berth_netlink::Socket;

use super::{kernel, together};
use crate::ipam;

pub fn gc(conf: &Conf, started: u64) -> Result<(), CniError> {
    let valid = ipam::valid(conf)?;
    let mut failures = remove_interfaces(conf, &valid.iter().collect(), started);
    // An address whose interface could not be removed may still be in use.
    if failures.is_empty() {
        failures.extend(ipam::gc(conf, valid, started).err());
    }
    together(failures).map_or(Ok(()), Err)
}

/// Continues after errors, and returns all of them.
fn remove_interfaces(
    conf: &Conf,
    valid: &BTreeSet<&berth_api::cni::Attachment>,
    started: u64,
) -> Vec<CniError> {
    let found = Socket::open().and_then(|host| host.links().map(|links| (host, links)));
    let (host, links) = match found {
        Ok(found) => found,
        Err(error) => return vec![kernel("listing interfaces", error)],
    };
    let mut failures = Vec::new();
    for link in links {
        let Some(alias) = Alias::read(&link.alias).filter(|alias| alias.is_of(&conf.name)) else {
            continue;
        };
        // The runtime's list can't name attachments that are newer than the list.
        if alias.started >= started || valid.contains(&alias.attachment) {
            continue;
        }
        match host.ask(|batch| batch.delete_link(link.index)) {
            Err(error) if !error.is_gone() => {
                failures.push(kernel(format!("removing {}", link.name), error))
            }
            _ => {}
        }
    }
    failures
}
