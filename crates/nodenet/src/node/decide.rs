//! What a node's config needs. Pure.

use crate::nnc::{self, Owner};

use super::Facts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// There is none.
    Create,
    /// Somebody else made it, or took something off it: owner and finalizer are missing, or one of
    /// them.
    Adopt,
    /// It is of a node that is no more, perhaps of one with the same name.
    Remove,
    /// Something that is no Node controls it: not ours to change.
    Foreign,
    Nothing,
}

/// `wanted`: a subnet takes the node.
pub fn decide(node: Option<&Facts>, config: Option<&nnc::Facts>, wanted: bool) -> Action {
    let staying = node.is_some_and(|node| !node.deleting);
    let Some(config) = config else {
        return if staying && wanted {
            Action::Create
        } else {
            Action::Nothing
        };
    };
    if config.deleting {
        // First all of it goes, its addresses with it.
        return Action::Nothing;
    }
    match &config.owner {
        Owner::Node { uid } if node.is_none_or(|node| node.uid != *uid) => Action::Remove,
        Owner::Node { .. } if staying && !config.finalizer => Action::Adopt,
        Owner::Nobody if staying && wanted => Action::Adopt,
        Owner::Other if staying && wanted => Action::Foreign,
        _ => Action::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(uid: &str) -> Facts {
        Facts {
            uid: uid.to_owned(),
            ..Facts::default()
        }
    }

    fn config(owner: Option<&str>, finalizer: bool) -> nnc::Facts {
        let node = |uid: &str| Owner::Node { uid: uid.to_owned() };
        nnc::Facts {
            owner: owner.map_or(Owner::Nobody, node),
            finalizer,
            ..nnc::Facts::default()
        }
    }

    #[test]
    fn a_node_that_a_subnet_takes_gets_one() {
        assert_eq!(decide(Some(&node("1")), None, true), Action::Create);
        assert_eq!(decide(Some(&node("1")), None, false), Action::Nothing);
        let leaving = Facts {
            deleting: true,
            ..node("1")
        };
        assert_eq!(decide(Some(&leaving), None, true), Action::Nothing);
        assert_eq!(
            decide(Some(&leaving), Some(&config(Some("1"), true)), true),
            Action::Nothing
        );
    }

    #[test]
    fn one_without_owner_or_finalizer_is_adopted() {
        for config in [config(None, false), config(None, true), config(Some("1"), false)] {
            assert_eq!(decide(Some(&node("1")), Some(&config), true), Action::Adopt);
        }
        let whole = config(Some("1"), true);
        assert_eq!(decide(Some(&node("1")), Some(&whole), true), Action::Nothing);
        assert_eq!(
            decide(Some(&node("1")), Some(&config(None, false)), false),
            Action::Nothing
        );
    }

    #[test]
    fn one_of_a_node_that_is_gone_goes_also_when_the_name_is_taken_again() {
        let old = config(Some("1"), true);
        assert_eq!(decide(Some(&node("2")), Some(&old), true), Action::Remove);
        assert_eq!(decide(None, Some(&old), false), Action::Remove);
        assert_eq!(decide(None, Some(&config(None, false)), false), Action::Nothing);
    }

    #[test]
    fn one_that_is_being_deleted_is_left_to_go() {
        let going = nnc::Facts {
            deleting: true,
            ..config(Some("1"), true)
        };
        assert_eq!(decide(Some(&node("2")), Some(&going), true), Action::Nothing);
    }

    #[test]
    fn one_that_something_else_controls_is_not_touched() {
        let foreign = nnc::Facts {
            owner: Owner::Other,
            ..config(None, false)
        };
        assert_eq!(decide(Some(&node("1")), Some(&foreign), true), Action::Foreign);
        assert_eq!(decide(None, Some(&foreign), false), Action::Nothing);
    }
}
