//! CHECK: whether the kernel and the agent still have what the ADD's result says.

use std::net::IpAddr;

use berth_addr::{Family, Prefix};
use berth_api::cni::{Address, Attachment, CniError, Code, Conf, Interface, Outcome};
use berth_netlink::{Link, NetlinkError, RouteFilter, Socket};

use super::identity::{host_name, mac_text};
use super::namespace::Namespace;
use super::{gateway, kernel, together};
use crate::ipam;

pub fn check(conf: &Conf, attachment: &Attachment, netns: &str) -> Result<(), CniError> {
    let previous = ipam::previous(conf)?;
    let namespace = Namespace::open(netns)?;
    let addresses = addresses_of(&previous, attachment, netns);
    if addresses.is_empty() {
        let msg = format!("prevResult gives no address to {} in {netns}", attachment.interface);
        return Err(CniError::new(Code::InvalidConf, msg));
    }
    let pod = namespace.socket()?;
    let host = Socket::open().map_err(|error| kernel("opening a socket", error))?;
    let looked = Look {
        previous: &previous,
        wrong: Vec::new(),
    };
    let wrong = looked.all(&host, &pod, attachment, netns, &addresses);
    let mut failures = wrong.map_err(|error| kernel("looking at the interface", error))?;
    failures.extend(ipam::check(conf, attachment, &addresses).err());
    together(failures).map_or(Ok(()), Err)
}

/// The addresses of this attachment: another plugin in the chain may have added others.
fn addresses_of(previous: &Outcome, attachment: &Attachment, netns: &str) -> Vec<Address> {
    let is_ours = |address: &&Address| {
        let interface = address.interface.and_then(|at| previous.interfaces.get(at));
        interface.is_some_and(|interface| {
            interface.name == attachment.interface && interface.sandbox == netns
        })
    };
    previous.addresses.iter().filter(is_ours).cloned().collect()
}

struct Look<'a> {
    previous: &'a Outcome,
    wrong: Vec<CniError>,
}

impl Look<'_> {
    fn all(
        mut self,
        host: &Socket,
        pod: &Socket,
        attachment: &Attachment,
        netns: &str,
        addresses: &[Address],
    ) -> Result<Vec<CniError>, NetlinkError> {
        let host_end = self.end(host, &host_name(attachment), "")?;
        let pod_end = self.end(pod, &attachment.interface, netns)?;
        if let Some(link) = pod_end {
            let has = pod.addresses(link.index)?;
            let routes = pod.routes(&RouteFilter {
                link: Some(link.index),
                ..RouteFilter::default()
            })?;
            let is_default = |gateway: IpAddr| {
                let all = Prefix::all(Family::of(gateway));
                routes
                    .iter()
                    .any(|route| route.destination == all && route.gateway == Some(gateway))
            };
            for address in addresses {
                if !has
                    .iter()
                    .any(|has| (has.address, has.length) == (address.address, address.length))
                {
                    self.miss(format!(
                        "{} has not {}/{}",
                        link.name, address.address, address.length
                    ));
                }
                let gateway = gateway(address.address);
                if !is_default(gateway) {
                    self.miss(format!("{} has no default route by {gateway}", link.name));
                }
            }
        }
        if let Some(link) = host_end {
            for Address { address, length, .. } in addresses {
                let found = host.route_to(*address)?;
                if !found.is_some_and(|route| {
                    route.link == Some(link.index) && route.destination.length() == *length
                }) {
                    self.miss(format!("the host has no route to {address} by {}", link.name));
                }
            }
        }
        Ok(self.wrong)
    }

    /// Compares an interface with the result's entry for it.
    fn end(
        &mut self,
        socket: &Socket,
        name: &str,
        sandbox: &str,
    ) -> Result<Option<Link>, NetlinkError> {
        let place = if sandbox.is_empty() { "the host" } else { sandbox };
        let Some(link) = socket.link(name)? else {
            self.miss(format!("there is no interface {name} in {place}"));
            return Ok(None);
        };
        if !link.up {
            self.miss(format!("{name} in {place} is down"));
        }
        let is_it = |interface: &&Interface| interface.name == name && interface.sandbox == sandbox;
        match self.previous.interfaces.iter().find(is_it) {
            None => self.miss(format!("prevResult has no interface {name} in {place}")),
            Some(expected) => {
                let mac = mac_text(&link.mac);
                if !expected.mac.is_empty() && expected.mac != mac {
                    self.miss(format!(
                        "{name} in {place} has the hardware address {mac}, not {}",
                        expected.mac
                    ));
                }
                if let Some(mtu) = expected.mtu.filter(|mtu| *mtu != link.mtu) {
                    self.miss(format!("{name} in {place} has the MTU {}, not {mtu}", link.mtu));
                }
            }
        }
        Ok(Some(link))
    }

    fn miss(&mut self, what: String) {
        self.wrong.push(CniError::new(Code::Mismatch, what));
    }
}
