//! `berth-cni`: a pair of interfaces, one end in the pod and one on the host, and routes through
//! it.
//!
//! The pod's end has only the pod's address (/32, /128). It sends everything to a gateway that does
//! not exist, 169.254.1.1 and fe80::1, whose permanent entry in the pod's neighbour table is the
//! host's end. So a gateway takes no address of the subnet, host ends share none, there are no
//! broadcasts and no ARP or neighbour discovery, and no sysctl (proxy_arp) has to be set for each
//! pod. On the host, a route to the pod's address and a permanent neighbour lead into the pair; the
//! routing table says which pod is where.
//!
//! Names and hardware addresses are derived from the attachment, so a DEL finds the interface even
//! if the network namespace is gone, and without a result.

mod add;
mod check;
mod del;
mod gc;
mod identity;
mod namespace;
mod removal;

use std::error::Error;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use berth_api::cni::{Call, CniError, Code, Conf};
use serde_json::Value;

use crate::ipam;

pub use removal::for_another_process as removal_for_another_process;

pub fn run(call: &Call, conf: &Conf, started: u64) -> Result<Option<Value>, CniError> {
    match call {
        Call::Add {
            attachment,
            netns,
            pod,
        } => {
            let outcome = add::add(conf, attachment, netns, pod, started)?;
            Ok(Some(outcome.document(conf.version)))
        }
        Call::Check { attachment, netns, .. } => {
            check::check(conf, attachment, netns).map(|()| None)
        }
        Call::Del { attachment, netns } => {
            del::del(conf, attachment, netns.as_deref(), started).map(|()| None)
        }
        Call::Gc => gc::gc(conf, started).map(|()| None),
        Call::Status => ipam::status(conf).map(|()| None),
        Call::Version => Ok(None),
    }
}

/// The gateway to which a pod sends all packets that are not for itself.
fn gateway(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::new(169, 254, 1, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

/// The default route's destination in the family of an address.
fn default_destination(address: IpAddr) -> (IpAddr, u8) {
    match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), 0),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), 0),
    }
}

/// An error of the kernel, with its causes.
fn kernel(doing: impl Display, error: impl Error) -> CniError {
    let mut msg = format!("{doing}: the kernel refuses: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        msg.push_str(&format!(": {error}"));
        cause = error.source();
    }
    CniError::new(Code::Kernel, msg)
}

/// Joins all failures into one with the first one's code; `None` when there is none.
fn together(failures: Vec<CniError>) -> Option<CniError> {
    let code = failures.first()?.code;
    let texts: Vec<String> = failures.into_iter().map(|failure| failure.msg).collect();
    Some(CniError::new(code, texts.join("; ")))
}

#[cfg(test)]
mod tests {
    use berth_netlink::NetlinkError;
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_refusal_of_the_kernel_comes_with_its_cause() {
        let failure = kernel(
            "configuring the pod's end",
            NetlinkError::Refused {
                request: "set link 7 up".to_owned(),
                explanation: None,
                source: Errno::PERM.into(),
            },
        );
        assert_eq!(failure.code.number(), 105);
        let start =
            "configuring the pod's end: the kernel refuses: set link 7 up: Operation not permitted";
        assert!(failure.msg.starts_with(start), "{failure}");
    }
}
