//! Who on the node has which address. Pure: what happens comes in with its time, and what is to be
//! kept goes out as entries for the journal.
//!
//! Two things are kept apart. What the node has is the NodeNetworkConfig's to say, and is taken
//! over whenever it changes. Who of the node's pods has an address is said here alone: an address
//! that is taken out of the NodeNetworkConfig under a pod stays the pod's until it is released, and
//! then is nobody's here. So every question of ownership is asked by address, in [`Pool::owners`],
//! and the answer never depends on what was delivered.
//!
//! Each change is in two steps, so that nothing is half done when the disk is full: `plan_…` says
//! what would be written, and `apply` does it. The journal stands between them, and replaying it is
//! the same `apply`.

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

/// Names in one line of the journal.
const LISTED: usize = 64;

/// What an attachment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub network: String,
    pub pod: PodRef,
    pub held: Vec<Held>,
    /// When the ADD was started that got it, or the last that asked for it again; when it was
    /// served, if that is not known.
    pub started: u64,
    pub at: u64,
}

#[derive(Debug, Default)]
pub struct Pool {
    containers: Vec<Container>,
    /// Of which every pod gets an address.
    families: BTreeSet<Family>,
    /// Where the node has leases of a family, its blocks of that family are for others.
    leased: BTreeSet<Family>,
    units: Units,
    blocks: Vec<Block>,
    holdings: BTreeMap<Attachment, Holding>,
    owners: BTreeMap<IpAddr, Attachment>,
    beyond: Beyond,
    tombstones: Tombstones,
    /// When an address last came free, for as long as that matters.
    freed: BTreeMap<IpAddr, u64>,
    /// Names that were given back to the subnet, until they are gone from what is delivered.
    releasing: BTreeSet<String>,
    quarantine: Quarantine,
}

/// What an ADD comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It has these already, and nothing changes.
    Has(Vec<Held>),
    /// It gets these once the entry is kept.
    Gets(Vec<Held>, Entry),
}

impl Pool {
    /// What is delivered from now on.
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
        // The spec names what was given back: it may have been by an agent whose journal is lost.
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
        } else if addresses().any(|address| self.quarantine.is_about(address)) {
            State::Quarantined
        } else {
            let since = addresses().filter_map(|address| self.freed.get(&address)).max();
            let since = since.copied().unwrap_or(0);
            State::Free { since }
        }
    }

    /// After something of these addresses has changed.
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
                Plan::Gets(held.clone(), assigned(request, held, now))
            } else {
                Plan::Has(held)
            });
        }
        let held = self.choose(&request.desired)?;
        Ok(Plan::Gets(held.clone(), assigned(request, held, now)))
    }

    /// `None`: it would undo an ADD that was started later.
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

    /// All of the network that is not valid, and was there when the call was made.
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

    /// The leases to give back next: of the free ones, so many. Where a node has two families, only
    /// such as have both: of leases of one, an equal number of each would have to go.
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

    /// A runtime says that this attachment has these addresses, and the journal does not know it.
    /// What is not the node's is left out, and what another has: unless that one is not among the
    /// `living` and there is a quarantine, for then the journal has missed how it was given up.
    ///
    /// One that was detached is on its way out, whatever the runtime still lists.
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
            // When its ADD was started nobody knows: before any DEL of it.
            started: 1,
            attachment: attachment.clone(),
            network: String::new(),
            pod: pod.clone(),
            held,
        })
    }

    /// What has been written happens. How many addresses came free by it.
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
                self.vacate(attachment);
                let started = if *started == 0 { *at } else { *started };
                let holding = Holding {
                    network: network.clone(),
                    pod: pod.clone(),
                    held: held.clone(),
                    started,
                    at: *at,
                };
                for one in held {
                    // Only a journal that can't be trusted has two for one address: the later one
                    // has it.
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
                let held = self.vacate(attachment);
                self.free(&held, *at);
                u64::try_from(held.len()).unwrap_or(u64::MAX)
            }
            Entry::Freed { at, held } => {
                self.free(held, *at);
                0
            }
            Entry::Quarantined => {
                self.quarantine = Quarantine::unsettled();
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
                    // Whoever has it keeps it.
                    let free = self.units.get(name).is_none_or(|unit| unit.state != State::Held);
                    if free && self.releasing.insert(name.clone()) {
                        self.units.set(name, State::Releasing);
                    }
                }
                0
            }
        }
    }

    /// All of a journal. The same as to apply one after the other, but for tombstones that would be
    /// forgotten on the way.
    pub fn replay(&mut self, entries: &[Entry]) {
        let is_release = |entry: &&Entry| matches!(entry, Entry::Released { .. });
        let mut releases = entries.iter().filter(is_release).count();
        for entry in entries {
            match entry {
                Entry::Released { at, attachment, .. } if releases > tombstones::MAX => {
                    releases -= 1;
                    let held = self.vacate(attachment);
                    self.free(&held, *at);
                }
                entry => drop(self.apply(entry)),
            }
        }
    }

    fn vacate(&mut self, attachment: &Attachment) -> Vec<Held> {
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

    /// As a plugin is told of it. An address that the node does not have any more is by itself.
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

    /// Names in the spec that must not be there: their addresses are somebody's.
    pub fn misnamed<'a>(
        &'a self,
        not_in_use: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = &'a str> {
        // Nearly always it is empty, and nothing is looked for.
        let named = usize::from(!not_in_use.is_empty());
        let units = std::iter::repeat_n((), named).flat_map(|()| self.units.iter());
        let held = units.filter(|unit| unit.state == State::Held);
        let names = held.flat_map(|unit| unit.lease.held.iter().map(|held| held.name.as_str()));
        names.filter(|name| not_in_use.contains(*name))
    }

    /// The names of what is on its way back, as the spec has them.
    pub fn releasing(&self) -> BTreeSet<String> {
        if self.units.tally().releasing == 0 {
            return BTreeSet::new();
        }
        let releasing = self.units.iter().filter(|unit| unit.state == State::Releasing);
        releasing.map(|unit| unit.lease.name().to_owned()).collect()
    }

    /// What living pods show of addresses while there is a quarantine, and whether the time of
    /// quarantine is over.
    pub fn recover(&mut self, shown: BTreeSet<IpAddr>, over: bool) {
        if self.quarantine.learn(shown, over) {
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

    /// Whether the node has it to give.
    pub fn has(&self, address: IpAddr) -> bool {
        self.units.of(address).is_some() || self.block_of(address).is_some()
    }

    /// All addresses that somebody on the node has.
    pub fn owned(&self) -> impl Iterator<Item = IpAddr> {
        self.owners.keys().copied()
    }

    pub fn is_quarantined(&self) -> bool {
        self.quarantine.is_there()
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
