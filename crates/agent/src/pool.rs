//! Which attachment on the node has which address. Pure: events come in with their time, and
//! changes go out as entries for the journal.
//!
//! Two things are kept apart. The NodeNetworkConfig says which addresses the node has, and the pool
//! follows it. The pool alone says which pod has an address: an address that leaves the
//! NodeNetworkConfig while a pod has it stays the pod's until it is released, and is not used again
//! here. So ownership is looked up by address, in [`Pool::owners`], and never depends on what was
//! delivered.
//!
//! Each change has two steps, so that nothing is half done when the disk is full: `plan_…` returns
//! the entries to write, and `apply` applies them once they are in the journal. A replay of the
//! journal uses the same `apply`.

mod beyond;
mod blocks;
mod choose;
mod counts;
mod delivered;
mod quarantine;
mod snapshot;
#[cfg(test)]
mod tests;
mod tombstones;
mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::Family;
use berth_api::agent::{Gc, GrantedAddress, Reason, Refusal, Release, Request};
use berth_api::cni::{Attachment, PodRef};

use crate::journal::{Entry, Held};
use beyond::Beyond;
use blocks::Block;
use quarantine::Quarantine;
use tombstones::Tombstones;
use units::{State, Unit, Units};

pub use delivered::{Container, Content, Delivered, Lease};

/// The most names in one line of the journal.
const LISTED: usize = 64;

/// What an attachment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub network: String,
    pub pod: PodRef,
    pub held: Vec<Held>,
    /// The start of the ADD that got the addresses, or of the last ADD that repeated it. If that is
    /// not known, the time at which the ADD was served.
    pub started: u64,
    pub at: u64,
}

#[derive(Debug, Default)]
pub struct Pool {
    containers: Vec<Container>,
    /// Every pod gets an address of each of these.
    families: BTreeSet<Family>,
    /// The families of the node's leases. Pods get no addresses from blocks of these families.
    leased: BTreeSet<Family>,
    units: Units,
    blocks: Vec<Block>,
    holdings: BTreeMap<Attachment, Holding>,
    owners: BTreeMap<IpAddr, Attachment>,
    beyond: Beyond,
    tombstones: Tombstones,
    /// When an address last came free, for as long as that matters.
    freed: BTreeMap<IpAddr, u64>,
    /// Names that are being given back to the subnet, until they are no longer delivered.
    releasing: BTreeSet<String>,
    quarantine: Quarantine,
}

/// The outcome of an ADD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The attachment has these already, and nothing changes.
    Existing(Vec<Held>),
    /// The attachment gets these once the entry is in the journal.
    New(Vec<Held>, Entry),
}

impl Pool {
    /// Takes over the delivered addresses.
    pub fn deliver(&mut self, delivered: &Delivered) {
        self.containers.clone_from(&delivered.containers);
        self.families = self.containers.iter().flat_map(Container::families).collect();
        let with_leases = self.containers.iter().filter(|container| container.has_leases());
        self.leased = with_leases.flat_map(Container::families).collect();
        self.quarantine.deliver(&self.containers);
        let mut leases: BTreeMap<String, (String, Lease)> = BTreeMap::new();
        let mut blocks = Vec::new();
        for container in &delivered.containers {
            match &container.content {
                Content::Leases(listed) => {
                    let named = listed.iter().map(|lease| {
                        (lease.name().to_owned(), (container.id.clone(), lease.clone()))
                    });
                    leases.extend(named);
                }
                Content::Blocks(listed) => blocks.extend(listed.iter().map(|prefix| {
                    let gateway =
                        container.space_of(prefix.first()).and_then(|space| space.gateway);
                    let known = self
                        .blocks
                        .iter()
                        .find(|block| block.is(&container.id, *prefix, gateway));
                    known.cloned().unwrap_or_else(|| self.new_block(container, *prefix))
                })),
            }
        }
        self.blocks = blocks;
        let gone: Vec<String> =
            self.units.iter().map(|unit| unit.lease.name().to_owned()).collect();
        for name in gone.iter().filter(|name| !leases.contains_key(*name)) {
            self.units.remove(name);
        }
        self.releasing.retain(|name| leases.contains_key(name));
        // Names in the spec are being given back, perhaps by an agent whose journal is lost.
        for (name, (_, lease)) in &leases {
            let named = lease.held.iter().any(|held| delivered.not_in_use.contains(&held.name));
            if named && !lease.held.iter().any(|held| self.owners.contains_key(&held.address)) {
                self.releasing.insert(name.clone());
            }
        }
        for (_, (container, lease)) in leases {
            let state = self.state_of(&lease);
            let same = self.units.get(lease.name()).is_some_and(|unit| {
                unit.lease == lease && unit.container == container && unit.state == state
            });
            if !same {
                self.units.put(Unit {
                    lease,
                    container,
                    state,
                });
            }
        }
        self.look_beyond();
    }

    fn new_block(&self, container: &Container, prefix: berth_addr::Prefix) -> Block {
        let gateway = container.space_of(prefix.first()).and_then(|space| space.gateway);
        let mut block = Block::new(&container.id, prefix, gateway);
        for (address, since) in &self.freed {
            if !self.owners.contains_key(address) {
                block.give_back(*address, *since);
            }
        }
        block
    }

    fn state_of(&self, lease: &Lease) -> State {
        let addresses = || lease.held.iter().map(|held| held.address);
        if addresses().any(|address| self.owners.contains_key(&address)) {
            State::Held
        } else if self.releasing.contains(lease.name()) {
            State::Releasing
        } else if addresses().any(|address| self.quarantine.covers(address)) {
            State::Quarantined
        } else {
            let since = addresses().filter_map(|address| self.freed.get(&address)).max();
            let since = since.copied().unwrap_or(0);
            State::Free { since }
        }
    }

    /// Updates the state of these addresses' units.
    fn refresh(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            if let Some(unit) = self.units.of(address) {
                let (name, state) = (unit.lease.name().to_owned(), self.state_of(&unit.lease));
                self.units.set(&name, state);
            }
        }
    }

    pub fn plan_request(&mut self, request: &Request, now: u64) -> Result<Plan, Refusal> {
        let attachment = &request.attachment;
        if let Some(late) = self.tombstones.refuses(attachment, request.started, now) {
            return Err(late);
        }
        if let Some(holding) = self.holdings.get(attachment) {
            let has = |address: &IpAddr| holding.held.iter().any(|held| held.address == *address);
            if !request.desired.iter().all(has) {
                let message = format!(
                    "{attachment} has other addresses than the desired ones: detach it first"
                );
                return Err(Refusal::new(Reason::Taken, message));
            }
            let held = holding.held.clone();
            // A DEL that was started before this ADD must not undo it, also after a restart.
            return Ok(if request.started > holding.started {
                Plan::New(held.clone(), assigned(request, held, now))
            } else {
                Plan::Existing(held)
            });
        }
        let held = self.choose(&request.desired)?;
        Ok(Plan::New(held.clone(), assigned(request, held, now)))
    }

    /// `None`: the release would undo an ADD that was started later.
    pub fn plan_release(&self, release: &Release, now: u64) -> Option<Entry> {
        let started = if release.started == 0 { now } else { release.started };
        let holding = self.holdings.get(&release.attachment);
        let later = holding.is_some_and(|holding| holding.started > started);
        (!later).then(|| Entry::Released {
            at: now,
            started,
            attachment: release.attachment.clone(),
        })
    }

    /// Releases all attachments of the network that are not valid and were there when the call was
    /// made.
    pub fn plan_gc(&self, gc: &Gc, now: u64) -> Vec<Entry> {
        let valid: BTreeSet<&Attachment> = gc.valid.iter().collect();
        let started = if gc.started == 0 { now } else { gc.started };
        let of_network = self
            .holdings
            .iter()
            .filter(|(_, holding)| holding.network == gc.network);
        let gone = of_network.filter(|(attachment, holding)| {
            holding.started <= started && !valid.contains(attachment)
        });
        let entry = |(attachment, _): (&Attachment, &Holding)| Entry::Released {
            at: now,
            started,
            attachment: attachment.clone(),
        };
        gone.map(entry).collect()
    }

    /// Gives back up to `count` free leases. If the node has two families, it gives back only
    /// leases of both: of single-family leases, an equal number of each would have to go.
    pub fn plan_releasing(&self, count: usize, now: u64) -> Vec<Entry> {
        if count == 0 {
            return Vec::new();
        }
        let is_whole = |unit: &&Unit| {
            let has = unit.lease.held.iter().map(|held| Family::of(held.address));
            has.collect::<BTreeSet<Family>>() == self.families
        };
        let chosen = self.units.latest_free().filter(is_whole).take(count);
        let names: Vec<String> = chosen.map(|unit| unit.lease.name().to_owned()).collect();
        let entry = |names: &[String]| Entry::Releasing {
            at: now,
            names: names.to_vec(),
        };
        names.chunks(LISTED).map(entry).collect()
    }

    /// The runtime says that this attachment has these addresses, and the journal does not know it.
    /// Addresses that are not the node's are left out, and so are those of another owner, unless
    /// the pool is in quarantine and that owner is not among the `living`: then the journal has
    /// missed its release.
    ///
    /// A detached attachment is not adopted, even if the runtime still lists its sandbox.
    pub fn plan_adoption(
        &self,
        attachment: &Attachment,
        pod: &PodRef,
        addresses: &[IpAddr],
        living: &BTreeSet<&Attachment>,
        now: u64,
    ) -> Option<Entry> {
        if self.holdings.contains_key(attachment) || self.tombstones.has(attachment) {
            return None;
        }
        let given_up = |owner: &Attachment| self.is_quarantined() && !living.contains(owner);
        let can_be_its = |address: &IpAddr| self.owners.get(address).is_none_or(given_up);
        let its = addresses
            .iter()
            .filter(|address| self.has(**address) && can_be_its(address));
        let held: Vec<Held> = its.map(|address| self.held_of(*address)).collect();
        (!held.is_empty()).then(|| Entry::Assigned {
            at: now,
            // The start of its ADD is not known; 1 is before any DEL.
            started: 1,
            attachment: attachment.clone(),
            network: String::new(),
            pod: pod.clone(),
            held,
        })
    }

    /// Applies an entry of the journal. Returns how many addresses came free.
    pub fn apply(&mut self, entry: &Entry) -> u64 {
        match entry {
            Entry::Assigned {
                at,
                started,
                attachment,
                network,
                pod,
                held,
            } => {
                self.remove_holding(attachment);
                let started = if *started == 0 { *at } else { *started };
                let holding = Holding {
                    network: network.clone(),
                    pod: pod.clone(),
                    held: held.clone(),
                    started,
                    at: *at,
                };
                for one in held {
                    // Only an untrusted journal has two owners for one address: the later one keeps
                    // it.
                    if let Some(other) = self.owners.insert(one.address, attachment.clone()) {
                        self.strip(&other, one.address);
                    }
                    self.freed.remove(&one.address);
                    self.note_held(one);
                    if let Some(block) =
                        self.blocks.iter_mut().find(|block| block.gives(one.address))
                    {
                        block.take(one.address);
                    }
                }
                self.holdings.insert(attachment.clone(), holding);
                self.refresh(held.iter().map(|one| one.address));
                0
            }
            Entry::Released {
                at,
                started,
                attachment,
            } => {
                self.tombstones.insert(attachment, *started, *at);
                let held = self.remove_holding(attachment);
                self.free(&held, *at);
                u64::try_from(held.len()).unwrap_or(u64::MAX)
            }
            Entry::Freed { at, held } => {
                self.free(held, *at);
                0
            }
            Entry::Quarantined => {
                self.quarantine = Quarantine::before_delivery();
                self.quarantine.deliver(&self.containers);
                self.refresh_all();
                0
            }
            Entry::Settled => {
                self.quarantine = Quarantine::default();
                self.refresh_all();
                0
            }
            Entry::Releasing { names, .. } => {
                for name in names {
                    // An attachment that has the address keeps it.
                    let free = self.units.get(name).is_none_or(|unit| unit.state != State::Held);
                    if free && self.releasing.insert(name.clone()) {
                        self.units.set(name, State::Releasing);
                    }
                }
                0
            }
        }
    }

    /// Applies all entries of a journal, in order. It skips tombstones that would be dropped on the
    /// way.
    pub fn replay(&mut self, entries: &[Entry]) {
        let is_release = |entry: &&Entry| matches!(entry, Entry::Released { .. });
        let mut releases = entries.iter().filter(is_release).count();
        for entry in entries {
            match entry {
                Entry::Released { at, attachment, .. } if releases > tombstones::MAX => {
                    releases -= 1;
                    let held = self.remove_holding(attachment);
                    self.free(&held, *at);
                }
                entry => drop(self.apply(entry)),
            }
        }
    }

    fn remove_holding(&mut self, attachment: &Attachment) -> Vec<Held> {
        let Some(holding) = self.holdings.remove(attachment) else {
            return Vec::new();
        };
        for held in &holding.held {
            self.owners.remove(&held.address);
            self.beyond.remove(&held.address);
        }
        holding.held
    }

    fn strip(&mut self, attachment: &Attachment, address: IpAddr) {
        if let Some(holding) = self.holdings.get_mut(attachment) {
            holding.held.retain(|held| held.address != address);
            if holding.held.is_empty() {
                self.holdings.remove(attachment);
            }
        }
    }

    fn free(&mut self, held: &[Held], at: u64) {
        for one in held {
            self.freed.insert(one.address, at);
            if let Some(block) = self.blocks.iter_mut().find(|block| block.gives(one.address)) {
                block.give_back(one.address, at);
            }
        }
        self.refresh(held.iter().map(|one| one.address));
    }

    /// The subnets that the node draws on.
    pub fn subnets(&self) -> impl Iterator<Item = &str> {
        self.containers.iter().map(|container| container.subnet.as_str())
    }

    pub fn holdings(&self) -> &BTreeMap<Attachment, Holding> {
        &self.holdings
    }

    /// The addresses as a plugin gets them. An address that is no longer delivered gets the full
    /// prefix length.
    pub fn granted(&self, held: &[Held]) -> Vec<GrantedAddress> {
        let granted = |held: &Held| {
            let space = self
                .container_of(held.address)
                .and_then(|container| container.space_of(held.address));
            let around = space.filter(|space| space.prefix.contains(held.address));
            GrantedAddress {
                address: held.address,
                length: around
                    .map_or(Family::of(held.address).bits(), |space| space.prefix.length()),
                gateway: space.and_then(|space| space.gateway),
            }
        };
        held.iter().map(granted).collect()
    }

    fn container_of(&self, address: IpAddr) -> Option<&Container> {
        let id = match self.units.of(address) {
            Some(unit) => &unit.container,
            None => &self.block_of(address)?.container,
        };
        self.containers.iter().find(|container| container.id == *id)
    }

    fn block_of(&self, address: IpAddr) -> Option<&Block> {
        self.blocks.iter().find(|block| block.gives(address))
    }

    fn held_of(&self, address: IpAddr) -> Held {
        let named = self
            .units
            .of(address)
            .and_then(|unit| unit.lease.held.iter().find(|held| held.address == address));
        named.cloned().unwrap_or_else(|| Held {
            name: self
                .block_of(address)
                .map_or_else(|| "none".to_owned(), |block| block.container.clone()),
            address,
        })
    }

    /// Names in the spec's list of unused addresses that attachments do have.
    pub fn misnamed<'a>(
        &'a self,
        not_in_use: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = &'a str> {
        // Nearly always the list is empty, and the units are not searched.
        let named = usize::from(!not_in_use.is_empty());
        let units = std::iter::repeat_n((), named).flat_map(|()| self.units.iter());
        let held = units.filter(|unit| unit.state == State::Held);
        let names = held.flat_map(|unit| unit.lease.held.iter().map(|held| held.name.as_str()));
        names.filter(|name| not_in_use.contains(*name))
    }

    /// The names that are being given back, as the spec has them.
    pub fn releasing(&self) -> BTreeSet<String> {
        if self.units.tally().releasing == 0 {
            return BTreeSet::new();
        }
        let releasing = self.units.iter().filter(|unit| unit.state == State::Releasing);
        releasing.map(|unit| unit.lease.name().to_owned()).collect()
    }

    /// Tells the quarantine which addresses living pods show, and whether its time is over.
    pub fn recover(&mut self, observed: BTreeSet<IpAddr>, over: bool) {
        if self.quarantine.update(observed, over) {
            self.refresh_all();
        }
    }

    fn refresh_all(&mut self) {
        self.blocks.iter_mut().for_each(Block::look_again);
        let leases = self.units.iter().flat_map(|unit| &unit.lease.held);
        let addresses: Vec<IpAddr> = leases.map(|held| held.address).collect();
        self.refresh(addresses);
    }

    /// Whether the next ADD of a new attachment would be served.
    pub fn can_serve(&mut self) -> Result<(), Refusal> {
        self.choose(&[]).map(drop)
    }

    /// Whether the address is delivered to the node.
    pub fn has(&self, address: IpAddr) -> bool {
        self.units.of(address).is_some() || self.block_of(address).is_some()
    }

    /// All addresses that attachments on the node have.
    pub fn owned(&self) -> impl Iterator<Item = IpAddr> {
        self.owners.keys().copied()
    }

    pub fn is_quarantined(&self) -> bool {
        self.quarantine.is_active()
    }
}

fn assigned(request: &Request, held: Vec<Held>, now: u64) -> Entry {
    Entry::Assigned {
        at: now,
        started: request.started,
        attachment: request.attachment.clone(),
        network: request.network.clone(),
        pod: request.pod.clone(),
        held,
    }
}
