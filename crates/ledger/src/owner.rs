//! The owner of a unit: one line of text, which a person can read in a store and which is its key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Written as `kind/cluster/name/uid`, and for kinds that have namespaces as
/// `kind/cluster/namespace/name/uid`. A part may hold anything but a slash; namespace and uid are
/// empty where there are none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

/// The kind of an owner. It decides which controller can say whether the owner still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A node's network container: its own address.
    Primary,
    /// A node's network container: the addresses for its pods.
    Secondary,
    /// A node: its podCIDR.
    NodeCidr,
    /// A machine.
    Machine,
    /// An IPAddressClaim of Cluster API.
    Claim,
    /// No object: reserved by a person.
    Reservation,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Primary,
        Self::Secondary,
        Self::NodeCidr,
        Self::Machine,
        Self::Claim,
        Self::Reservation,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::NodeCidr => "node-cidr",
            Self::Machine => "machine",
            Self::Claim => "claim",
            Self::Reservation => "reservation",
        }
    }

    /// Whether names of this kind are unique only within a namespace.
    pub fn has_namespaces(self) -> bool {
        matches!(self, Self::Machine | Self::Claim)
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// The text names no owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an owner: write it as kind/cluster/name/uid, or for machines and claims as \
     kind/cluster/namespace/name/uid, without other slashes and at most {MAX_LENGTH} bytes"
)]
pub struct NotAnOwner {
    text: String,
}

/// As in the CRD of AddressBlock.
const MAX_LENGTH: usize = 512;

impl Owner {
    /// The owner of this kind with `name` and `uid` in `cluster`, without a namespace.
    pub fn new(kind: Kind, cluster: &str, name: &str, uid: &str) -> Result<Self, NotAnOwner> {
        if kind.has_namespaces() {
            return Self::namespaced(kind, cluster, "", name, uid);
        }
        format!("{}/{cluster}/{name}/{uid}", kind.word()).parse()
    }

    /// An owner of a kind with namespaces; other kinds are refused.
    pub fn namespaced(
        kind: Kind,
        cluster: &str,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<Self, NotAnOwner> {
        format!("{}/{cluster}/{namespace}/{name}/{uid}", kind.word()).parse()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn kind(&self) -> Kind {
        Kind::of(self.part(0)).unwrap_or(Kind::Reservation)
    }

    pub fn cluster(&self) -> &str {
        self.part(1)
    }

    /// Empty where there is none.
    pub fn namespace(&self) -> &str {
        if self.kind().has_namespaces() { self.part(2) } else { "" }
    }

    pub fn name(&self) -> &str {
        self.part(2 + usize::from(self.kind().has_namespaces()))
    }

    pub fn uid(&self) -> &str {
        self.part(3 + usize::from(self.kind().has_namespaces()))
    }

    /// The gate that its controller opens after a loss: see [`crate::Ledger::gate`]. Three
    /// controllers know the nodes, machines and claims of a cluster, and none can claim for
    /// another.
    pub fn gate(&self) -> String {
        gate(self.cluster(), self.kind())
    }

    fn part(&self, n: usize) -> &str {
        self.0.split('/').nth(n).unwrap_or_default()
    }
}

impl FromStr for Owner {
    type Err = NotAnOwner;

    fn from_str(text: &str) -> Result<Self, NotAnOwner> {
        let parts: Vec<&str> = text.split('/').collect();
        let sound = |kind: Kind| {
            let more = usize::from(kind.has_namespaces());
            parts.len() == 4 + more && !parts[2 + more].is_empty()
        };
        let kind = parts.first().and_then(|word| Kind::of(word));
        if !kind.is_some_and(sound) || text.len() > MAX_LENGTH {
            return Err(NotAnOwner { text: text.to_owned() });
        }
        Ok(Self(Arc::from(text)))
    }
}

/// The name of the gate for owners of this kind. The gate of a cluster's nodes has the cluster's
/// own name; no cluster's name has a slash.
pub fn gate(cluster: &str, kind: Kind) -> String {
    if kind.has_namespaces() {
        format!("{cluster}/{}", kind.word())
    } else {
        cluster.to_owned()
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
    fn machines_and_claims_have_namespaces() {
        let owner = Owner::namespaced(Kind::Claim, "prod", "default", "c1", "8d7f").unwrap();
        assert_eq!(owner.as_str(), "claim/prod/default/c1/8d7f");
        assert_eq!(
            (owner.namespace(), owner.name(), owner.uid()),
            ("default", "c1", "8d7f")
        );
        let owner = Owner::new(Kind::Machine, "prod", "m1", "8d7f").unwrap();
        assert_eq!(owner.as_str(), "machine/prod//m1/8d7f");
        assert_eq!((owner.namespace(), owner.name(), owner.uid()), ("", "m1", "8d7f"));
        assert!("machine/prod/m1/8d7f".parse::<Owner>().is_err());
        assert!(Owner::namespaced(Kind::Primary, "prod", "default", "n", "u").is_err());
    }

    #[test]
    fn each_kind_of_speaker_has_a_gate_of_its_own() {
        let gate = |kind| Owner::new(kind, "prod", "x", "").unwrap().gate();
        assert_eq!(gate(Kind::Primary), "prod");
        assert_eq!(gate(Kind::NodeCidr), "prod");
        assert_eq!(gate(Kind::Machine), "prod/machine");
        assert_eq!(gate(Kind::Claim), "prod/claim");
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        assert!(Owner::new(Kind::Machine, "a/b", "c", "").is_err());
        assert!(Owner::new(Kind::Machine, "a", "", "").is_err());
        assert!("stranger/a/b/c".parse::<Owner>().is_err());
        assert!(Owner::new(Kind::Machine, "a", &"n".repeat(512), "").is_err());
    }
}
