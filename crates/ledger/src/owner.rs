//! Who can own a unit. One line of text that a person can read in a store, and that is its key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Written as `kind/cluster/name/uid`. A part may hold anything but a slash; the uid is empty where there is none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

/// What an owner is, and with it who can say whether it is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A node's network container: its own address.
    Primary,
    /// A node's network container: the addresses for its pods.
    Secondary,
    /// A node: its podCIDR.
    NodeCidr,
    /// A machine or a claim.
    Machine,
    /// Nobody: kept aside by a person.
    Reservation,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Primary,
        Self::Secondary,
        Self::NodeCidr,
        Self::Machine,
        Self::Reservation,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::NodeCidr => "node-cidr",
            Self::Machine => "machine",
            Self::Reservation => "reservation",
        }
    }
}

/// The text is no owner's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no owner: write it as kind/cluster/name/uid, without other slashes and at most {MAX_LENGTH} bytes"
)]
pub struct NotAnOwner {
    text: String,
}

/// As in the CRD of AddressBlock.
const MAX_LENGTH: usize = 512;

impl Owner {
    /// The owner of that kind that goes by `name` and `uid` in `cluster`.
    pub fn new(kind: Kind, cluster: &str, name: &str, uid: &str) -> Result<Self, NotAnOwner> {
        format!("{}/{cluster}/{name}/{uid}", kind.word()).parse()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn kind(&self) -> Kind {
        let word = self.part(0);
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
        kind.unwrap_or(Kind::Reservation)
    }

    pub fn cluster(&self) -> &str {
        self.part(1)
    }

    pub fn name(&self) -> &str {
        self.part(2)
    }

    pub fn uid(&self) -> &str {
        self.part(3)
    }

    fn part(&self, n: usize) -> &str {
        self.0.split('/').nth(n).unwrap_or_default()
    }
}

impl FromStr for Owner {
    type Err = NotAnOwner;

    fn from_str(text: &str) -> Result<Self, NotAnOwner> {
        let parts: Vec<&str> = text.split('/').collect();
        let known = Kind::ALL.iter().any(|kind| Some(&kind.word()) == parts.first());
        if !known || parts.len() != 4 || parts[2].is_empty() || text.len() > MAX_LENGTH {
            return Err(NotAnOwner { text: text.to_owned() });
        }
        Ok(Self(Arc::from(text)))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_comes_apart_as_it_was_put_together() {
        let owner = Owner::new(Kind::Secondary, "prod", "node-1", "8d7f").unwrap();
        assert_eq!(owner.as_str(), "secondary/prod/node-1/8d7f");
        assert_eq!(owner.to_string().parse::<Owner>().unwrap(), owner);
        assert_eq!((owner.kind(), owner.cluster()), (Kind::Secondary, "prod"));
        assert_eq!((owner.name(), owner.uid()), ("node-1", "8d7f"));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        assert!(Owner::new(Kind::Machine, "a/b", "c", "").is_err());
        assert!(Owner::new(Kind::Machine, "a", "", "").is_err());
        assert!("stranger/a/b/c".parse::<Owner>().is_err());
        assert!(Owner::new(Kind::Machine, "a", &"n".repeat(512), "").is_err());
    }
}
