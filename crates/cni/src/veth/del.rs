//! DEL: removes all that can be removed, and reports every error.

use berth_api::cni::{Attachment, CniError, Conf};
use berth_netlink::Socket;

use super::identity::{host_name, is_of, macs};
use super::namespace::Namespace;
use super::{kernel, removal, together};
use crate::release::release;

pub fn del(
    conf: &Conf,
    attachment: &Attachment,
    netns: Option<&str>,
    started: u64,
) -> Result<(), CniError> {
    let mut failures = Vec::new();
    if let Err(failure) = remove(attachment, netns) {
        failures.push(failure);
    }
    // While the pod may still use the address, it must not be released: the runtime calls again.
    if failures.is_empty() {
        failures.extend(release(&conf.settings, attachment, started).err());
    }
    together(failures).map_or(Ok(()), Err)
}

/// Removes the interface by the host end's name. If there is none, the host end may have been
/// renamed, so this removes the pod's end.
fn remove(attachment: &Attachment, netns: Option<&str>) -> Result<(), CniError> {
    let name = host_name(attachment);
    let removing = format!("removing {name}");
    let failed = |error| kernel(&removing, error);
    let host = Socket::open().map_err(failed)?;
    match host.link(&name) {
        Ok(Some(link)) if is_of(&link, attachment) => {
            removal::remove(&host, &link).map_err(|error| error.failure(&removing))
        }
        Ok(_) => netns.map_or(Ok(()), |netns| remove_from_pod(attachment, netns)),
        Err(error) => Err(failed(error)),
    }
}

fn remove_from_pod(attachment: &Attachment, netns: &str) -> Result<(), CniError> {
    // The namespace is gone, never existed, or is the host's own: none of our interfaces is in it.
    let Ok(namespace) = Namespace::open(netns) else {
        return Ok(());
    };
    let Ok(pod) = namespace.socket() else {
        return Ok(());
    };
    let interface = &attachment.interface;
    let failed = |error| kernel(format!("removing {interface} from {netns}"), error);
    let (_, mac) = macs(attachment);
    match pod.link(interface) {
        // An interface of that name with another hardware address is not ours.
        Ok(Some(link)) if link.mac == mac => match pod.ask(|batch| batch.delete_link(link.index)) {
            Err(error) if !error.is_gone() => Err(failed(error)),
            _ => Ok(()),
        },
        Ok(_) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
