use super::*;

const FULL: View = View {
    has_container: true,
    is_quarantined: false,
    free: 0,
    assigned: 12,
    waiting: 3,
    supply: Supply::SubnetFull,
};

fn observed(reason: Reason) -> ObservedCondition {
    ObservedCondition {
        status: status_of(reason).to_owned(),
        reason: reason.as_str().to_owned(),
        since: None,
    }
}

#[test]
fn an_empty_pool_that_may_grow_keeps_the_node_condition() {
    let refilled = View {
        supply: Supply::Open,
        ..FULL
    };
    assert_eq!(decide(None, &refilled), None);
    assert_eq!(decide(Some(&observed(Reason::AddressesFree)), &refilled), None);
    assert_eq!(decide(Some(&observed(Reason::SubnetFull)), &refilled), None);
}

#[test]
fn an_empty_pool_that_can_get_no_more_is_told_with_the_reason() {
    for (supply, reason) in [
        (Supply::SubnetFull, Reason::SubnetFull),
        (Supply::MaxIpCount(12), Reason::MaxIpCountReached),
        (Supply::AllocatablePods(12), Reason::AllocatablePodsReached),
        (Supply::PodCidr, Reason::PodCidrFull),
    ] {
        // Also while nobody waits: the next pod would.
        for waiting in [0, 3] {
            let view = View {
                supply,
                waiting,
                ..FULL
            };
            assert_eq!(decide(None, &view), Some(reason));
            assert_eq!(decide(Some(&observed(Reason::AddressesFree)), &view), Some(reason));
            assert_eq!(decide(Some(&observed(reason)), &view), None, "said once");
        }
        assert!(!reason.is_available());
    }
}

#[test]
fn an_address_that_a_waiting_pod_takes_does_not_turn_it() {
    let full = observed(Reason::SubnetFull);
    let freed = View {
        free: 1,
        assigned: 11,
        waiting: 1,
        ..FULL
    };
    assert_eq!(decide(Some(&full), &freed), None);
    assert_eq!(
        decide(Some(&full), &View { waiting: 0, ..freed }),
        Some(Reason::AddressesFree)
    );
    // Nor does a full subnet, while some are free.
    assert_eq!(decide(Some(&observed(Reason::AddressesFree)), &freed), None);
    assert_eq!(
        decide(None, &freed),
        Some(Reason::AddressesFree),
        "the first time something is said"
    );
}

#[test]
fn no_container_and_quarantine_are_told_apart_from_full() {
    let none = View {
        has_container: false,
        ..FULL
    };
    assert_eq!(decide(None, &none), Some(Reason::NoNetworkContainer));
    let quarantined = View {
        is_quarantined: true,
        ..FULL
    };
    assert_eq!(decide(None, &quarantined), Some(Reason::Quarantined));
    // Addresses that came since are nobody's, and can be given out.
    let more = View {
        free: 4,
        waiting: 0,
        ..quarantined
    };
    assert_eq!(decide(None, &more), Some(Reason::AddressesFree));
}

#[test]
fn the_message_has_the_figures_and_the_reason() {
    let expected =
        "0 addresses are free, 12 are assigned, 3 pods wait for one; the subnet has no more";
    assert_eq!(FULL.to_string(), expected);
    let limited = View {
        supply: Supply::MaxIpCount(12),
        ..FULL
    };
    assert!(limited.to_string().ends_with("maxIPCount allows 12"));
}
