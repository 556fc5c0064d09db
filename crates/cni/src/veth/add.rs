//! ADD: makes an interface completely, or not at all.

use std::net::IpAddr;
use std::path::Path;

use berth_addr::{Family, Prefix};
use berth_api::agent::Granted;
use berth_api::cni::{
    Address, Alias, Attachment, CniError, Code, Conf, Interface, Outcome, PodRef, Route,
};
use berth_netlink::{Batch, Link, NetlinkError, Route as KernelRoute, Socket, Veth, VethPeer};

use super::identity::{host_name, is_of, mac_text, macs};
use super::namespace::Namespace;
use super::{default_destination, gateway, kernel};
use crate::ipam;
use crate::release::release;

pub fn add(
    conf: &Conf,
    attachment: &Attachment,
    netns: &str,
    pod: &PodRef,
    started: u64,
) -> Result<Outcome, CniError> {
    let namespace = Namespace::open(netns)?;
    let ends = Ends {
        conf,
        attachment,
        host_name: host_name(attachment),
        host: Socket::open().map_err(|error| kernel("opening a socket", error))?,
        pod: namespace.socket()?,
        namespace,
    };
    // This check comes before the agent is asked: for an existing attachment the agent would return
    // the same addresses, and undoing this call would release them.
    if ends.is_in_pod()? {
        return Err(exists(attachment, netns));
    }
    let granted = ipam::request(conf, attachment, pod, started)?;
    let undo =
        |failure| with_undo_failures(failure, vec![release(&conf.settings, attachment, started)]);
    let link = match ends.make() {
        Ok(Some(link)) => link,
        Ok(None) => {
            let msg = format!("{} was removed as soon as it was made", ends.host_name);
            return Err(undo(CniError::new(Code::Kernel, msg)));
        }
        // Another call was first, and uses the address.
        Err(error) if error.is_taken() && matches!(ends.is_in_pod(), Ok(true)) => {
            return Err(exists(attachment, netns));
        }
        Err(error) => return Err(undo(kernel("connecting the pod", error))),
    };
    match ends.connect(&link, &granted, started) {
        Ok(()) => Ok(ends.outcome(&link, &granted, netns)),
        Err(failure) => {
            let removed = ends.host.ask(|batch| batch.delete_link(link.index));
            let removed = removed
                .map(|_| ())
                .map_err(|error| kernel(format!("removing {}", link.name), error));
            // While the interface exists, its address must not be released.
            let steps = match removed {
                Ok(()) => vec![release(&conf.settings, attachment, started)],
                Err(failure) => vec![Err(failure)],
            };
            Err(with_undo_failures(failure, steps))
        }
    }
}

/// The failure, with the failures of undoing it as details.
fn with_undo_failures(failure: CniError, steps: Vec<Result<(), CniError>>) -> CniError {
    let failed: Vec<String> = steps
        .into_iter()
        .filter_map(Result::err)
        .map(|failure| failure.msg)
        .collect();
    if failed.is_empty() {
        return failure;
    }
    failure.with_details(format!("not everything could be undone: {}", failed.join("; ")))
}

fn exists(attachment: &Attachment, netns: &str) -> CniError {
    let msg = format!(
        "there is already an interface {} in {netns}: detach it first",
        attachment.interface
    );
    CniError::new(Code::Kernel, msg)
}

/// Both ends of the pair, before or after they are made.
struct Ends<'a> {
    conf: &'a Conf,
    attachment: &'a Attachment,
    host_name: String,
    host: Socket,
    pod: Socket,
    namespace: Namespace,
}

impl Ends<'_> {
    fn is_in_pod(&self) -> Result<bool, CniError> {
        let found = self.pod.link(&self.attachment.interface);
        let failed =
            |error| kernel(format!("looking for {} in the pod", self.attachment.interface), error);
        found.map(|link| link.is_some()).map_err(failed)
    }

    /// Makes a new pair and returns its host end; `None` if that was removed meanwhile.
    fn make(&self) -> Result<Option<Link>, NetlinkError> {
        match self.try_to_make() {
            Err(error) if error.is_taken() => {
                let left = self.host.link(&self.host_name)?;
                let Some(left) = left.filter(|left| is_of(left, self.attachment)) else {
                    return Err(error);
                };
                if matches!(self.pod.link(&self.attachment.interface), Ok(Some(_))) {
                    return Err(error);
                }
                // The pod has no such interface, so the pair was left by an attachment of the same
                // container in another namespace.
                self.host.ask(|batch| batch.delete_link(left.index))?;
                self.try_to_make()
            }
            made => made,
        }
    }

    fn try_to_make(&self) -> Result<Option<Link>, NetlinkError> {
        let (host_mac, pod_mac) = macs(self.attachment);
        let mut batch = Batch::default();
        batch.new_veth(&Veth {
            name: &self.host_name,
            mac: host_mac,
            mtu: self.conf.mtu,
            peer: VethPeer {
                name: &self.attachment.interface,
                mac: pod_mac,
                namespace: std::os::fd::AsFd::as_fd(&self.namespace),
            },
        });
        batch.get_link(&self.host_name);
        let mut answers = self.host.call(batch)?.into_iter();
        answers.next().unwrap_or(Ok(Vec::new()))?;
        let found = Link::found(answers.next().unwrap_or(Ok(Vec::new())));
        if !matches!(found, Ok(Some(_))) {
            // The pair can't be used without its index, so it is removed. The failure is reported
            // in any case.
            let _ = self.host.ask(|batch| batch.delete_link_named(&self.host_name));
        }
        found
    }

    fn connect(&self, link: &Link, granted: &Granted, started: u64) -> Result<(), CniError> {
        let (host_mac, pod_mac) = macs(self.attachment);
        let addresses: Vec<IpAddr> =
            granted.addresses.iter().map(|granted| granted.address).collect();
        let mut pod = Batch::default();
        pod.set_up(link.peer);
        let mut host = Batch::default();
        let alias = Alias::new(&self.conf.name, self.attachment, started);
        host.set_alias(link.index, &alias.text());
        for &address in &addresses {
            let gateway = gateway(address);
            pod.new_address(link.peer, address);
            pod.put_neighbour(link.peer, gateway, &host_mac);
            pod.add_route(&KernelRoute {
                gateway: Some(gateway),
                link: Some(link.peer),
                on_link: true,
                ..KernelRoute::to(Prefix::all(Family::of(address)))
            });
            host.put_neighbour(link.index, address, &pod_mac);
            // This replaces a route that another link has left behind: the agent decides who has
            // the address.
            host.put_route(&KernelRoute {
                link: Some(link.index),
                ..KernelRoute::to(address)
            });
        }
        if addresses.iter().any(IpAddr::is_ipv4) {
            switch("/proc/sys/net/ipv4/ip_forward", "1")?;
        }
        if addresses.iter().any(IpAddr::is_ipv6) {
            switch("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
            // Some runtimes make namespaces without IPv6.
            let disabled =
                format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", self.attachment.interface);
            self.namespace.inside(|| switch(&disabled, "0"))??;
        }
        run(&self.pod, pod).map_err(|error| {
            let doing = format!("configuring {} in the pod", self.attachment.interface);
            kernel(doing, error)
        })?;
        run(&self.host, host).map_err(|error| kernel(format!("configuring {}", link.name), error))
    }

    fn outcome(&self, link: &Link, granted: &Granted, netns: &str) -> Outcome {
        let (host_mac, pod_mac) = macs(self.attachment);
        // Interfaces of earlier plugins in the chain stay in the result.
        let mut outcome = self.conf.previous.as_ref().map(Outcome::read).unwrap_or_default();
        let interface = |name: &str, mac: &[u8], sandbox: &str| Interface {
            name: name.to_owned(),
            mac: mac_text(mac),
            mtu: Some(link.mtu),
            sandbox: sandbox.to_owned(),
        };
        outcome.interfaces.push(interface(&link.name, &host_mac, ""));
        let place = outcome.interfaces.len();
        outcome
            .interfaces
            .push(interface(&self.attachment.interface, &pod_mac, netns));
        for granted in &granted.addresses {
            let gateway = Some(gateway(granted.address));
            outcome.addresses.push(Address {
                address: granted.address,
                length: Family::of(granted.address).bits(),
                gateway,
                interface: Some(place),
            });
            outcome.routes.push(Route {
                destination: default_destination(granted.address),
                gateway,
            });
        }
        outcome
    }
}

/// Runs a batch, and returns its first error.
fn run(socket: &Socket, batch: Batch) -> Result<(), NetlinkError> {
    for answer in socket.call(batch)? {
        answer?;
    }
    Ok(())
}

/// Sets a sysctl, unless it has the value already: for the kernel, writing it is a change of every
/// interface.
fn switch(path: &str, value: &str) -> Result<(), CniError> {
    let path = Path::new(path);
    if std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value) {
        return Ok(());
    }
    std::fs::write(path, value).map_err(|error| {
        let msg = format!("{} can't be set to {value}: {error}", path.display());
        CniError::new(Code::Kernel, msg)
    })
}
