//! ADD: an interface that is there in full, or not at all.

use std::net::IpAddr;
use std::path::Path;

use berth_api::agent::Granted;
use berth_api::cni::{Address, Alias, Attachment, Code, Conf, Failure, Interface, Outcome, PodRef, Route};
use rustix::io::Errno;

use super::identity::{host_name, is_of, mac_text, macs};
use super::namespace::Namespace;
use super::{everywhere, gateway, kernel};
use crate::ipam;
use crate::release::release;
use berth_netlink::{Batch, Link, PodEnd, Socket, Veth, full_length};

pub fn add(conf: &Conf, attachment: &Attachment, netns: &str, pod: &PodRef, started: u64) -> Result<Outcome, Failure> {
    let namespace = Namespace::open(netns)?;
    let ends = Ends {
        conf,
        attachment,
        host_name: host_name(attachment),
        host: Socket::open().map_err(|error| kernel("opening a socket", error))?,
        pod: namespace.socket()?,
        namespace,
    };
    // Before the agent is asked: of an attachment that is there already it would say what it has said before, and undoing this
    // call would take its address away.
    if ends.is_in_pod()? {
        return Err(exists(attachment, netns));
    }
    let granted = ipam::request(conf, attachment, pod, started)?;
    let link = match ends.make() {
        Ok(link) => link,
        // Another call was quicker, and has the address.
        Err(Errno::EXIST) if matches!(ends.is_in_pod(), Ok(true)) => return Err(exists(attachment, netns)),
        Err(error) => {
            let failure = kernel(
                format!("making the pair {} and {}", ends.host_name, attachment.interface),
                error,
            );
            return Err(undone(failure, vec![release(&conf.settings, attachment, started)]));
        }
    };
    match ends.connect(&link, &granted, started) {
        Ok(()) => Ok(ends.outcome(&link, &granted, netns)),
        Err(failure) => {
            let removed = ends.host.ask(|batch| batch.delete_link(link.index));
            let removed = removed
                .map(|_| ())
                .map_err(|error| kernel(format!("removing {}", link.name), error));
            // While the interface is there, nobody else may have its address.
            let steps = match removed {
                Ok(()) => vec![release(&conf.settings, attachment, started)],
                Err(failure) => vec![Err(failure)],
            };
            Err(undone(failure, steps))
        }
    }
}

/// What went wrong, with what went wrong in undoing it.
fn undone(failure: Failure, steps: Vec<Result<(), Failure>>) -> Failure {
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

fn exists(attachment: &Attachment, netns: &str) -> Failure {
    let msg = format!(
        "there is already an interface {} in {netns}: detach it first",
        attachment.interface
    );
    Failure::new(Code::Kernel, msg)
}

/// Both ends of the pair, made or to be made.
struct Ends<'a> {
    conf: &'a Conf,
    attachment: &'a Attachment,
    host_name: String,
    host: Socket,
    pod: Socket,
    namespace: Namespace,
}

impl Ends<'_> {
    fn is_in_pod(&self) -> Result<bool, Failure> {
        let found = self.pod.link(&self.attachment.interface);
        let failed = |error| kernel(format!("looking for {} in the pod", self.attachment.interface), error);
        found.map(|link| link.is_some()).map_err(failed)
    }

    /// The host end of a new pair.
    fn make(&self) -> Result<Link, Errno> {
        match self.try_to_make() {
            // The pod has no such interface: it is what an attachment of the same container in another namespace has left.
            Err(Errno::EXIST) => {
                let left = self.host.link(&self.host_name)?.ok_or(Errno::EXIST)?;
                if !is_of(&left, self.attachment) || matches!(self.pod.link(&self.attachment.interface), Ok(Some(_))) {
                    return Err(Errno::EXIST);
                }
                self.host.ask(|batch| batch.delete_link(left.index))?;
                self.try_to_make()
            }
            made => made,
        }
    }

    fn try_to_make(&self) -> Result<Link, Errno> {
        let (host_mac, pod_mac) = macs(self.attachment);
        let mut batch = Batch::default();
        batch.new_veth(&Veth {
            name: &self.host_name,
            mac: host_mac,
            mtu: self.conf.mtu,
            pod: PodEnd {
                name: &self.attachment.interface,
                mac: pod_mac,
                namespace: std::os::fd::AsFd::as_fd(&self.namespace),
            },
        });
        batch.get_link(&self.host_name);
        let mut answers = self.host.call(&batch)?.into_iter();
        answers.next().unwrap_or(Err(Errno::INVAL))?;
        match Link::found(answers.next().unwrap_or(Err(Errno::INVAL))) {
            Ok(Some(link)) => Ok(link),
            found => {
                // Without its number nothing can be done with it, so it must not stay. The failure is reported in any case.
                let _ = self.host.ask(|batch| batch.delete_link_named(&self.host_name));
                found.and(Err(Errno::NODEV))
            }
        }
    }

    fn connect(&self, link: &Link, granted: &Granted, started: u64) -> Result<(), Failure> {
        let (host_mac, pod_mac) = macs(self.attachment);
        let addresses: Vec<IpAddr> = granted.addresses.iter().map(|granted| granted.address).collect();
        let mut pod = Steps::default();
        pod.add(format!("bringing up {}", self.attachment.interface), |batch| {
            batch.set_up(link.peer)
        });
        let mut host = Steps::default();
        let alias = Alias::new(&self.conf.name, self.attachment, started);
        host.add(format!("marking {}", link.name), |batch| {
            batch.set_alias(link.index, &alias.text())
        });
        for &address in &addresses {
            let gateway = gateway(address);
            pod.add(format!("giving {address} to the pod"), |batch| {
                batch.new_address(link.peer, address)
            });
            pod.add(format!("naming the gateway {gateway}"), |batch| {
                batch.put_neighbour(link.peer, gateway, &host_mac);
            });
            pod.add(format!("the pod's default route by {gateway}"), |batch| {
                batch.new_default_route(link.peer, gateway);
            });
            host.add(format!("naming the neighbour {address}"), |batch| {
                batch.put_neighbour(link.index, address, &pod_mac);
            });
            host.add(format!("the route to {address}"), |batch| {
                batch.put_host_route(link.index, address)
            });
        }
        if addresses.iter().any(IpAddr::is_ipv4) {
            switch("/proc/sys/net/ipv4/ip_forward", "1")?;
        }
        if addresses.iter().any(IpAddr::is_ipv6) {
            switch("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
            // Some runtimes make namespaces without IPv6.
            let disabled = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", self.attachment.interface);
            self.namespace.inside(|| switch(&disabled, "0"))??;
        }
        pod.run(&self.pod)?;
        host.run(&self.host)
    }

    fn outcome(&self, link: &Link, granted: &Granted, netns: &str) -> Outcome {
        let (host_mac, pod_mac) = macs(self.attachment);
        // What an earlier plugin of the chain has made stays in the result.
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
                length: full_length(granted.address),
                gateway,
                interface: Some(place),
            });
            outcome.routes.push(Route {
                destination: everywhere(granted.address),
                gateway,
            });
        }
        outcome
    }
}

/// Messages of one batch, each with what it is for.
#[derive(Default)]
struct Steps {
    batch: Batch,
    purposes: Vec<String>,
}

impl Steps {
    fn add(&mut self, purpose: String, message: impl FnOnce(&mut Batch)) {
        message(&mut self.batch);
        self.purposes.push(purpose);
    }

    fn run(self, socket: &Socket) -> Result<(), Failure> {
        let answers = socket
            .call(&self.batch)
            .map_err(|error| kernel("configuring the pair", error))?;
        for (answer, purpose) in answers.into_iter().zip(self.purposes) {
            answer.map_err(|error| kernel(purpose, error))?;
        }
        Ok(())
    }
}

/// Writes only what is not so already: for the kernel it is a change of every interface.
fn switch(path: &str, value: &str) -> Result<(), Failure> {
    let path = Path::new(path);
    if std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value) {
        return Ok(());
    }
    std::fs::write(path, value).map_err(|error| {
        let msg = format!("{} can't be set to {value}: {error}", path.display());
        Failure::new(Code::Kernel, msg)
    })
}
