//! The names, hardware addresses and alias of an attachment's interfaces.

use berth_api::cni::{Alias, Attachment, stable_hash};
use berth_netlink::{Link, Mac};

/// The prefix of every host end's name.
const PREFIX: &str = "berth";

/// The host end's name: at most fifteen characters, which is all the kernel allows.
pub fn host_name(attachment: &Attachment) -> String {
    /// Without letters that are easily mistaken for others.
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let hash = hash_of(attachment);
    let digit = |at: u32| {
        let value = usize::try_from((hash >> (64 - 5 * (at + 1))) & 31).unwrap_or(0);
        char::from(DIGITS[value])
    };
    PREFIX.chars().chain((0..10).map(digit)).collect()
}

/// The hardware addresses of the host end and of the pod's end. They are derived, not random, so
/// that each end knows the other's without asking.
pub fn macs(attachment: &Attachment) -> (Mac, Mac) {
    let [a, b, c, d, e, ..] = hash_of(attachment).to_be_bytes();
    // The second digit marks a locally administered unicast address.
    ([0x06, a, b, c, d, e], [0x02, a, b, c, d, e])
}

/// A hardware address as CNI results have it.
pub fn mac_text(mac: &[u8]) -> String {
    let pairs: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

/// Whether a link with an attachment's name belongs to that attachment. A link without an alias
/// does: its ADD has not set the alias yet.
pub fn is_of(link: &Link, attachment: &Attachment) -> bool {
    Alias::read(&link.alias).is_none_or(|alias| alias.attachment == *attachment)
}

fn hash_of(attachment: &Attachment) -> u64 {
    // Neither part can contain a colon.
    stable_hash([attachment.container.as_bytes(), b":", attachment.interface.as_bytes()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn attachment(container: &str, interface: &str) -> Attachment {
        Attachment::new(container, interface).unwrap()
    }

    #[test]
    fn every_attachment_has_its_own_name_and_hardware_addresses() {
        let mut names = BTreeSet::new();
        let mut macs_seen = BTreeSet::new();
        for container in 0..20_000 {
            for interface in ["eth0", "net1"] {
                let attachment = attachment(&format!("container-{container}"), interface);
                let name = host_name(&attachment);
                assert!(name.len() == 15 && name.starts_with("berth"), "{name}");
                assert!(names.insert(name));
                let (host, pod) = macs(&attachment);
                assert!(macs_seen.insert(host) && macs_seen.insert(pod));
            }
        }
    }

    #[test]
    fn names_stay_the_same_from_one_build_to_the_next() {
        // A DEL of a new version finds what an ADD of an old one has made.
        let attachment = attachment("8f0c2", "eth0");
        assert_eq!(host_name(&attachment), "berth23rth8aqk1");
        assert_eq!(mac_text(&macs(&attachment).1), "02:10:f1:a8:a1:57");
    }
}
