//! DEL: all that can be removed is, and every error is reported.

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
    // While the pod may still use the address, nobody else may have it: the runtime calls again.
    if failures.is_empty() {
        failures.extend(release(&conf.settings, attachment, started).err());
    }
    together(failures).map_or(Ok(()), Err)
}

/// By the host end's name; where there is none, by the pod's end, of which the host end may have
/// been renamed.
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
    // Gone, or never there, or the host's own: nothing of ours is in it.
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
        // Another's interface of that name is none of ours.
        Ok(Some(link)) if link.mac == mac => match pod.ask(|batch| batch.delete_link(link.index)) {
            Err(error) if !error.is_gone() => Err(failed(error)),
            _ => Ok(()),
        },
        Ok(_) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
