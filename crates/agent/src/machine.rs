//! Which machine the agent runs on, and whether a Node is that machine's.
//!
//! A kubelet reports three ids. The boot id is new with every boot and the same in all containers
//! on one kernel: if it is equal, so is the machine. The other two outlive a boot, so they tell a
//! rebooted machine from another machine.

use std::path::Path;
use std::{fmt, fs, io};

use berth_api::MachineIds;

/// Where a kubelet looks for them, in this order.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MACHINE_ID: &[&str] = &["/etc/machine-id", "/var/lib/dbus/machine-id"];
const SYSTEM_UUID: &[&str] = &[
    "/sys/class/dmi/id/product_uuid",
    "/proc/device-tree/system-id",
    "/proc/device-tree/vm,uuid",
    "/etc/machine-id",
];

/// An empty id is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub boot_id: String,
    pub machine_id: String,
    pub system_uuid: String,
}

/// How a Node compares with this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is this machine's, or nothing is known to the contrary.
    Same,
    /// It is this machine's, and its kubelet has not reported this boot yet.
    Rebooted,
    Other,
}

impl Machine {
    /// Reads this machine's ids. An id that can't be read is left empty, except the boot id, which
    /// every Linux has.
    pub fn read() -> io::Result<Self> {
        Ok(Self {
            boot_id: fs::read_to_string(BOOT_ID)?.trim().to_owned(),
            machine_id: first_of(MACHINE_ID),
            system_uuid: first_of(SYSTEM_UUID),
        })
    }

    /// The machine that a Node reports.
    pub fn of(ids: &MachineIds) -> Self {
        let MachineIds {
            boot_id,
            machine_id,
            system_uuid,
        } = ids.clone();
        Self {
            boot_id,
            machine_id,
            system_uuid,
        }
    }

    /// Whether `node` is this machine.
    pub fn compare(&self, node: &Self) -> Verdict {
        let boot = is_equal(&self.boot_id, &node.boot_id);
        if boot == Some(true) {
            return Verdict::Same;
        }
        let lasting = [
            is_equal(&self.machine_id, &node.machine_id),
            is_equal(&self.system_uuid, &node.system_uuid),
        ];
        let differs = lasting.contains(&Some(false));
        match boot {
            None if differs => Verdict::Other,
            None => Verdict::Same,
            Some(_) if !differs && lasting.contains(&Some(true)) => Verdict::Rebooted,
            Some(_) => Verdict::Other,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            boot_id,
            machine_id,
            system_uuid,
        } = self;
        write!(
            f,
            "bootID {boot_id:?}, machineID {machine_id:?}, systemUUID {system_uuid:?}"
        )
    }
}

/// `None` while one of them is not known. Firmware and kubelets differ in the case of letters.
fn is_equal(one: &str, other: &str) -> Option<bool> {
    (!one.is_empty() && !other.is_empty()).then(|| one.eq_ignore_ascii_case(other))
}

fn first_of(paths: &[&str]) -> String {
    let read = |path: &&str| fs::read_to_string(Path::new(path)).ok();
    let found = paths.iter().find_map(read).unwrap_or_default();
    found.trim_end_matches('\0').trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(boot: &str, id: &str, uuid: &str) -> Machine {
        Machine {
            boot_id: boot.to_owned(),
            machine_id: id.to_owned(),
            system_uuid: uuid.to_owned(),
        }
    }

    #[test]
    fn an_equal_boot_id_settles_it() {
        let this = machine("b1", "m1", "u1");
        assert_eq!(this.compare(&machine("b1", "m1", "U1")), Verdict::Same);
        // An agent in a container sees the image's /etc/machine-id.
        assert_eq!(this.compare(&machine("b1", "m2", "")), Verdict::Same);
    }

    #[test]
    fn a_machine_that_was_rebooted_is_told_from_another() {
        let this = machine("b2", "m1", "u1");
        assert_eq!(this.compare(&machine("b1", "m1", "u1")), Verdict::Rebooted);
        assert_eq!(this.compare(&machine("b1", "m1", "")), Verdict::Rebooted);
        assert_eq!(this.compare(&machine("b1", "m2", "u2")), Verdict::Other);
        // A clone has the machine-id of its image, and a UUID of its own.
        assert_eq!(this.compare(&machine("b1", "m1", "u2")), Verdict::Other);
        assert_eq!(this.compare(&machine("b1", "", "")), Verdict::Other);
    }

    #[test]
    fn a_node_that_says_nothing_is_nobody_elses() {
        let this = machine("b1", "m1", "u1");
        assert_eq!(this.compare(&Machine::default()), Verdict::Same);
        assert_eq!(this.compare(&machine("", "m2", "")), Verdict::Other);
        assert_eq!(Machine::default().compare(&this), Verdict::Same);
    }

    #[test]
    fn this_machine_has_a_boot_id() {
        let this = Machine::read().unwrap();
        assert_eq!(this.boot_id.len(), 36, "{this}");
        assert_eq!(this.compare(&this), Verdict::Same);
    }
}
