//! What a node's NodeNetworkConfig needs. Pure.

use crate::facts::{NncFacts, NncOwner, NodeFacts};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// There is no nnc.
    Create,
    /// Somebody else created it, or removed something: the owner, the finalizer or both are
    /// missing.
    Adopt,
    /// It belongs to a node that is gone, perhaps to one of the same name.
    Remove,
    /// An object that is not a Node controls it: we must not change it.
    Foreign,
    Nothing,
}

/// `selected`: a subnet selects the node.
pub fn decide(node: Option<&NodeFacts>, nnc: Option<&NncFacts>, selected: bool) -> Action {
    let staying = node.is_some_and(|node| !node.deleting);
    let Some(nnc) = nnc else {
        return if staying && selected {
            Action::Create
        } else {
            Action::Nothing
        };
    };
    if nnc.deleting {
        // First all of it goes, its addresses with it.
        return Action::Nothing;
    }
    match &nnc.owner {
        NncOwner::Node { uid } if node.is_none_or(|node| node.uid != *uid) => Action::Remove,
        NncOwner::Node { .. } if staying && !nnc.finalizer => Action::Adopt,
        NncOwner::Nobody if staying && selected => Action::Adopt,
        NncOwner::Other if staying && selected => Action::Foreign,
        _ => Action::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(uid: &str) -> NodeFacts {
        NodeFacts {
            uid: uid.to_owned(),
            ..NodeFacts::default()
        }
    }

    fn nnc(owner: Option<&str>, finalizer: bool) -> NncFacts {
        let node = |uid: &str| NncOwner::Node { uid: uid.to_owned() };
        NncFacts {
            owner: owner.map_or(NncOwner::Nobody, node),
            finalizer,
            ..NncFacts::default()
        }
    }

    #[test]
    fn a_node_that_a_subnet_selects_gets_one() {
        assert_eq!(decide(Some(&node("1")), None, true), Action::Create);
        assert_eq!(decide(Some(&node("1")), None, false), Action::Nothing);
        let deleting = NodeFacts {
            deleting: true,
            ..node("1")
        };
        assert_eq!(decide(Some(&deleting), None, true), Action::Nothing);
        assert_eq!(
            decide(Some(&deleting), Some(&nnc(Some("1"), true)), true),
            Action::Nothing
        );
    }

    #[test]
    fn one_without_owner_or_finalizer_is_adopted() {
        for nnc in [nnc(None, false), nnc(None, true), nnc(Some("1"), false)] {
            assert_eq!(decide(Some(&node("1")), Some(&nnc), true), Action::Adopt);
        }
        let whole = nnc(Some("1"), true);
        assert_eq!(decide(Some(&node("1")), Some(&whole), true), Action::Nothing);
        assert_eq!(
            decide(Some(&node("1")), Some(&nnc(None, false)), false),
            Action::Nothing
        );
    }

    #[test]
    fn an_nnc_whose_node_uid_is_gone_is_removed() {
        let old = nnc(Some("1"), true);
        assert_eq!(decide(Some(&node("2")), Some(&old), true), Action::Remove);
        assert_eq!(decide(None, Some(&old), false), Action::Remove);
        assert_eq!(decide(None, Some(&nnc(None, false)), false), Action::Nothing);
    }

    #[test]
    fn one_that_is_being_deleted_is_left_to_go() {
        let going = NncFacts {
            deleting: true,
            ..nnc(Some("1"), true)
        };
        assert_eq!(decide(Some(&node("2")), Some(&going), true), Action::Nothing);
    }

    #[test]
    fn one_that_something_else_controls_is_not_touched() {
        let foreign = NncFacts {
            owner: NncOwner::Other,
            ..nnc(None, false)
        };
        assert_eq!(decide(Some(&node("1")), Some(&foreign), true), Action::Foreign);
        assert_eq!(decide(None, Some(&foreign), false), Action::Nothing);
    }
}
