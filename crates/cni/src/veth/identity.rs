//! What an attachment's interfaces are called and known by.

use berth_api::cni::Attachment;

use crate::netlink::{Link, Mac};

/// Begins the name of every host end.
const PREFIX: &str = "berth";
/// Begins the alias of every host end. Short, because the kernel keeps 255 bytes.
const MARK: &str = "berth";
/// Longer names of networks would not fit into an alias beside the longest id of a container.
const NETWORK_LENGTH: usize = 14;

/// The host end's name: at most fifteen characters, which is all the kernel allows.
pub fn host_name(attachment: &Attachment) -> String {
    /// No letters that are mistaken for others.
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let hash = hash_of(attachment);
    let digit = |at: u32| {
        let value = usize::try_from((hash >> (64 - 5 * (at + 1))) & 31).unwrap_or(0);
        char::from(DIGITS[value])
    };
    PREFIX.chars().chain((0..10).map(digit)).collect()
}

/// Of the host end and of the pod's end. Given, not drawn, so that each end knows the other's without asking.
pub fn macs(attachment: &Attachment) -> (Mac, Mac) {
    let [a, b, c, d, e, ..] = hash_of(attachment).to_be_bytes();
    // The second digit says: of one interface, and made up here.
    ([0x06, a, b, c, d, e], [0x02, a, b, c, d, e])
}

/// As results have it.
pub fn mac_text(mac: &[u8]) -> String {
    let pairs: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

/// Whose interface it is, and since when: what a GC goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    network: String,
    pub attachment: Attachment,
    /// When the plugin was started that made it.
    pub started: u64,
}

impl Mark {
    pub fn new(network: &str, attachment: &Attachment, started: u64) -> Self {
        Self {
            network: short(network),
            attachment: attachment.clone(),
            started,
        }
    }

    pub fn is_of(&self, network: &str) -> bool {
        self.network == short(network)
    }

    /// Whether a link that has an attachment's name is that attachment's. One without a mark is: its ADD has not come that far.
    pub fn allows(link: &Link, attachment: &Attachment) -> bool {
        Self::read(&link.alias).is_none_or(|mark| mark.attachment == *attachment)
    }

    pub fn alias(&self) -> String {
        let Self {
            network,
            attachment,
            started,
        } = self;
        format!(
            "{MARK}/{started:x}/{network}/{}/{}",
            attachment.container, attachment.interface
        )
    }

    pub fn read(alias: &str) -> Option<Self> {
        let mut parts = alias.split('/');
        if parts.next()? != MARK {
            return None;
        }
        let started = u64::from_str_radix(parts.next()?, 16).ok()?;
        let network = parts.next()?.to_owned();
        let attachment = Attachment::new(parts.next()?, parts.next()?).ok()?;
        parts.next().is_none().then_some(Self {
            network,
            attachment,
            started,
        })
    }
}

/// A long name by its hash; no name of a network begins like that.
fn short(network: &str) -> String {
    if network.len() <= NETWORK_LENGTH {
        return network.to_owned();
    }
    let hash = hash([network.as_bytes()]);
    format!("#{:013x}", hash >> 12)
}

fn hash_of(attachment: &Attachment) -> u64 {
    // Neither can have a colon in it.
    hash([attachment.container.as_bytes(), b":", attachment.interface.as_bytes()])
}

/// FNV-1a with a last stir, so that its upper bits depend on the last letters too.
fn hash<const N: usize>(parts: [&[u8]; N]) -> u64 {
    let bytes = parts.into_iter().flatten();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
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

    #[test]
    fn an_alias_tells_whose_an_interface_is_and_fits_the_kernel() {
        let longest = attachment(&"c".repeat(200), "fifteen-letters");
        for network in ["pods", "fourteen-chars", "a-network-with-a-name-that-is-very-long"] {
            let mark = Mark::new(network, &longest, u64::MAX);
            assert!(mark.alias().len() < 256, "{}", mark.alias().len());
            assert_eq!(Mark::read(&mark.alias()), Some(mark.clone()));
            assert!(mark.is_of(network) && !mark.is_of("other") && !mark.is_of("a-network-with-another-long-name"));
        }
        for nonsense in [
            "",
            "berth",
            "uplink",
            "berth/x/pods/c/eth0",
            "berth/1/pods/c/eth0/more",
            "berth/1/pods/../eth0",
        ] {
            assert_eq!(Mark::read(nonsense), None, "{nonsense}");
        }
    }
}
