//! What must be done for a machine. Pure: state in, a step out.

use berth_ledger::{Kind, LeaseId, NotAnOwner, Owner};
use uuid::Uuid;

use super::pools::Pools;
use super::{FINALIZER, index::Key};
use crate::machine::{INITIALIZER, INITIALIZERS, Initializers, Machine};
use crate::network::Network;

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The machine waits for nothing of ours.
    Nothing,
    /// The machine's network can't be read, so nobody knows which addresses it has. It stays as it
    /// is.
    Refuse { why: String },
    /// The finalizer comes first. Otherwise a machine that is deleted between the lease and the
    /// finalizer would leave its address behind.
    Protect,
    /// It is gated and has no network: give it one, and open the gate.
    Allocate,
    /// Its network was set by hand, or by us: the ledger must have it; then the gate opens.
    Record { network: Network, gated: bool },
    /// Only our finalizer holds the deleted machine: its address comes back, and then it goes.
    Release,
}

impl Machine {
    pub fn initializers(&self) -> Initializers {
        let annotations = self.metadata.annotations.iter().flatten();
        let mut found = annotations.filter(|(name, _)| *name == INITIALIZERS);
        found
            .next()
            .map(|(_, text)| Initializers::parse(text))
            .unwrap_or_default()
    }

    /// Whether the machine waits for us.
    pub fn is_gated(&self) -> bool {
        self.initializers().contains(INITIALIZER)
    }

    fn is_protected(&self) -> bool {
        self.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
    }

    pub fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The machine as an owner in the ledger.
    pub fn owner(&self, cluster: &str) -> Result<Owner, NotAnOwner> {
        let key = Key::of(self);
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        Owner::namespaced(Kind::Machine, cluster, &key.namespace, &key.name, uid)
    }
}

/// One lease for each owner: asking again, after any crash, finds the same address.
pub fn lease_of(owner: &Owner) -> LeaseId {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, owner.as_str().as_bytes())
}

pub fn step(machine: &Machine, pools: &Pools) -> Step {
    if machine.is_deleting() {
        // While others' finalizers hold it, its machine may still run.
        let only_ours = machine.is_protected() && machine.finalizers().len() == 1;
        return if only_ours { Step::Release } else { Step::Nothing };
    }
    let gated = machine.is_gated();
    match &machine.network {
        Err(error) => Step::Refuse {
            why: error.to_string(),
        },
        Ok(None) if !gated => Step::Nothing,
        Ok(None) if !machine.is_protected() => Step::Protect,
        Ok(None) => Step::Allocate,
        Ok(Some(network)) => {
            let ours = network
                .addresses
                .iter()
                .any(|address| pools.holding(address.ip).is_some());
            match (ours, gated) {
                (false, false) => Step::Nothing,
                (true, _) if !machine.is_protected() => Step::Protect,
                _ => Step::Record {
                    network: network.clone(),
                    gated,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use berth_api::machines::flag::NetworkFlag;

    fn pools() -> Pools {
        let flag: NetworkFlag = "10.0.0.0/24,10.0.0.1".parse().unwrap();
        let mut subnet = flag.subnet(0);
        subnet.status =
            serde_json::from_value(json!({"cidrs": ["10.0.0.0/24"], "capacity": 253})).unwrap();
        let mut pools = Pools::default();
        pools.apply(&subnet);
        pools
    }

    fn machine(metadata: Value, network: Value) -> Machine {
        let mut metadata = metadata;
        metadata["name"] = "m".into();
        let machine = json!({
            "apiVersion": "machine.k8s.io/v1alpha1", "kind": "Machine",
            "metadata": metadata, "spec": {"providerConfig": {"network": network}},
        });
        Machine::parse(&machine.to_string()).unwrap()
    }

    fn gated(finalizers: &[&str]) -> Value {
        json!({"annotations": {INITIALIZERS: "a,ipam.berth.dev"}, "finalizers": finalizers})
    }

    fn of(metadata: Value, network: Value) -> Step {
        step(&machine(metadata, network), &pools())
    }

    #[test]
    fn a_gated_machine_is_protected_first_and_then_given_an_address() {
        assert_eq!(of(gated(&[]), Value::Null), Step::Protect);
        assert_eq!(of(gated(&[FINALIZER]), Value::Null), Step::Allocate);
    }

    #[test]
    fn a_machine_without_our_gate_and_network_uses_dhcp_as_before() {
        assert_eq!(of(json!({}), Value::Null), Step::Nothing);
        let others = json!({"annotations": {INITIALIZERS: "my-ipam.berth.dev"}});
        assert_eq!(of(others, Value::Null), Step::Nothing);
    }

    #[test]
    fn a_manual_network_is_recorded_and_an_outside_one_is_allowed() {
        let inside = json!({"cidr": "10.0.0.9/24"});
        assert_eq!(of(json!({}), inside.clone()), Step::Protect);
        assert!(matches!(
            of(json!({"finalizers": [FINALIZER]}), inside),
            Step::Record { gated: false, .. }
        ));
        let outside = json!({"cidr": "10.9.0.9/24"});
        assert_eq!(of(json!({}), outside.clone()), Step::Nothing);
        assert!(matches!(of(gated(&[]), outside), Step::Record { gated: true, .. }));
    }

    #[test]
    fn an_address_is_held_until_only_we_hold_the_machine() {
        let deleting = |finalizers: &[&str]| json!({"deletionTimestamp": "2026-11-16T00:00:00Z", "finalizers": finalizers});
        let network = json!({"cidr": "10.0.0.9/24"});
        assert_eq!(
            of(deleting(&["machine-delete-finalizer", FINALIZER]), network.clone()),
            Step::Nothing
        );
        assert_eq!(of(deleting(&[FINALIZER]), network.clone()), Step::Release);
        assert_eq!(of(deleting(&["machine-delete-finalizer"]), network), Step::Nothing);
    }

    #[test]
    fn a_network_that_does_not_parse_stays_where_it_is() {
        assert!(matches!(of(gated(&[]), json!({"ip": "x"})), Step::Refuse { .. }));
    }

    #[test]
    fn the_lease_follows_from_the_owner() {
        let owner = |uid: &str| Owner::namespaced(Kind::Machine, "c", "ns", "m", uid).unwrap();
        assert_eq!(lease_of(&owner("1")), lease_of(&owner("1")));
        assert_ne!(lease_of(&owner("1")), lease_of(&owner("2")));
    }
}
