//! The alias of an interface on the host: its attachment, and when that was made. `berth-cni`
//! writes it, its GC reads it, and an agent that has lost its journal learns from it what is
//! attached.

use super::Attachment;

/// The prefix of every alias. Short, because the kernel keeps 255 bytes.
const PREFIX: &str = "berth";
/// A longer name of a network would not fit beside the longest id of a container.
const NETWORK_LENGTH: usize = 14;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    network: String,
    pub attachment: Attachment,
    /// When the plugin that made the interface was started.
    pub started: u64,
}

impl Alias {
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

    pub fn text(&self) -> String {
        let Self {
            network,
            attachment,
            started,
        } = self;
        format!(
            "{PREFIX}/{started:x}/{network}/{}/{}",
            attachment.container, attachment.interface
        )
    }

    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        if parts.next()? != PREFIX {
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

/// Replaces a long name with `#` and its hash. No network's name begins with `#`.
fn short(network: &str) -> String {
    if network.len() <= NETWORK_LENGTH {
        return network.to_owned();
    }
    format!("#{:013x}", stable_hash([network.as_bytes()]) >> 12)
}

/// A hash that is the same in every build: one version of a plugin finds the names that another
/// made.
///
/// It is FNV-1a with a final mix, so that its upper bits depend on the last letters, too.
pub fn stable_hash<const N: usize>(parts: [&[u8]; N]) -> u64 {
    let bytes = parts.into_iter().flatten();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_tells_whose_an_interface_is_and_fits_the_kernel() {
        let longest = Attachment::new(&"c".repeat(200), "fifteen-letters").unwrap();
        for network in ["pods", "fourteen-chars", "a-network-with-a-name-that-is-very-long"] {
            let alias = Alias::new(network, &longest, u64::MAX);
            assert!(alias.text().len() < 256, "{}", alias.text().len());
            assert_eq!(Alias::read(&alias.text()), Some(alias.clone()));
            assert!(alias.is_of(network) && !alias.is_of("other"));
            assert!(!alias.is_of("a-network-with-another-long-name"));
        }
        for nonsense in [
            "",
            "berth",
            "uplink",
            "berth/x/pods/c/eth0",
            "berth/1/pods/c/eth0/more",
            "berth/1/pods/../eth0",
        ] {
            assert_eq!(Alias::read(nonsense), None, "{nonsense}");
        }
    }
}
