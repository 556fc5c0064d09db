//! What every allocator promises, on both sides.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_addr::Family;
use berth_nodenet::allocator::{AllocatorError, SubnetCounts, Update};
use uuid::Uuid;

use super::world::{Side, node, request};

const SMALL: &[&str] = &["10.64.0.0/29"];
const LARGE: &[&str] = &["10.64.0.0/16"];
const BOTH: &[&str] = &["10.64.0.0/24", "fd64::/120"];

/// Each is a test on one side and on the other.
macro_rules! promises {
    ($($name:ident on $cidrs:expr;)*) => {
        mod local {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Side::local($cidrs).await).await;
            })*
        }

        mod remote {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Side::remote($cidrs).await).await;
            })*
        }
    };
}

promises! {
    creating_twice_makes_one_container on super::LARGE;
    a_container_has_one_address_of_each_family_and_none_for_pods on super::BOTH;
    an_update_that_is_sent_again_leases_nothing_more on super::LARGE;
    an_update_whose_answer_nobody_saw_leases_nothing_more on super::LARGE;
    another_request_for_the_same_count_leases_nothing_more on super::LARGE;
    what_is_given_back_is_gone_and_replaced_up_to_the_count on super::LARGE;
    leases_that_the_node_does_not_have_are_ignored on super::LARGE;
    a_lower_count_takes_nothing_that_was_not_given_back on super::LARGE;
    a_short_subnet_gives_what_it_has_and_reports_the_rest on super::SMALL;
    a_full_subnet_makes_no_container_and_keeps_its_name on super::SMALL;
    deleting_twice_is_deleting_once on super::LARGE;
    a_container_that_was_deleted_is_not_found on super::LARGE;
    who_waits_is_woken_by_a_release on super::SMALL;
    counts_are_the_sum_of_what_the_containers_have on super::BOTH;
    a_subnet_that_is_not_known_is_named on super::LARGE;
    a_node_whose_name_is_two_is_refused on super::LARGE;
}

async fn creating_twice_makes_one_container(side: Side) {
    let first = side.allocator.create("pods", &node("a")).await.unwrap();
    let again = side.allocator.create("pods", &node("a")).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(first.subnet, "pods");
    assert_eq!(first.id, node("a").id());
    let other = side.allocator.create("pods", &node("b")).await.unwrap();
    assert_ne!(first.primary, other.primary);
}

async fn a_container_has_one_address_of_each_family_and_none_for_pods(side: Side) {
    let made = side.allocator.create("pods", &node("a")).await.unwrap();
    let families: Vec<Family> = made.primary.iter().map(|unit| unit.family()).collect();
    assert_eq!(families, [Family::V4, Family::V6]);
    assert_eq!((made.secondaries.len(), made.short), (0, 0));
}

async fn an_update_that_is_sent_again_leases_nothing_more(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    let first = side.allocator.update("pods", &node("a"), request(1, 16)).await.unwrap();
    let again = side.allocator.update("pods", &node("a"), request(1, 16)).await.unwrap();
    assert_eq!(first.secondaries.len(), 16);
    assert_eq!(first, again);
}

/// Dropped after more and more steps, wherever that is.
async fn an_update_whose_answer_nobody_saw_leases_nothing_more(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    for steps in 0_u8..60 {
        let number = u128::from(steps);
        let count = 4 * (usize::from(steps) + 1);
        let node = node("a");
        let mut unseen = side.allocator.update("pods", &node, request(number, count));
        for _ in 0..steps {
            if futures::poll!(&mut unseen).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(unseen);
        let seen = side
            .allocator
            .update("pods", &node, request(number, count))
            .await
            .unwrap();
        assert_eq!(seen.secondaries.len(), count, "after {steps} steps");
        let found = side.allocator.get("pods", &node).await.unwrap().unwrap();
        assert_eq!(found.secondaries, seen.secondaries);
    }
}

async fn another_request_for_the_same_count_leases_nothing_more(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    let first = side.allocator.update("pods", &node("a"), request(1, 16)).await.unwrap();
    let other = side.allocator.update("pods", &node("a"), request(2, 16)).await.unwrap();
    assert_eq!(first.secondaries, other.secondaries);
}

async fn what_is_given_back_is_gone_and_replaced_up_to_the_count(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    let before = side.allocator.update("pods", &node("a"), request(1, 8)).await.unwrap();
    let back: Vec<Uuid> = before.secondaries[..3].iter().map(|lease| lease.id).collect();
    let update = Update {
        give_back: back.clone(),
        ..request(2, 8)
    };
    let after = side.allocator.update("pods", &node("a"), update).await.unwrap();
    let has: BTreeSet<Uuid> = after.secondaries.iter().map(|lease| lease.id).collect();
    assert_eq!(has.len(), 8);
    assert!(back.iter().all(|id| !has.contains(id)));
    assert!(before.secondaries[3..].iter().all(|lease| has.contains(&lease.id)));
}

async fn leases_that_the_node_does_not_have_are_ignored(side: Side) {
    for name in ["a", "b"] {
        side.allocator.create("pods", &node(name)).await.unwrap();
    }
    let of_a = side.allocator.update("pods", &node("a"), request(1, 4)).await.unwrap();
    let of_b = side.allocator.update("pods", &node("b"), request(2, 4)).await.unwrap();
    let update = Update {
        give_back: vec![
            of_a.secondaries[0].id,
            Uuid::from_u128(77),
            node("a").id(),
            node("b").id(),
        ],
        ..request(3, 4)
    };
    let after = side.allocator.update("pods", &node("b"), update).await.unwrap();
    assert_eq!(after, of_b);
    let found = side.allocator.get("pods", &node("a")).await.unwrap().unwrap();
    assert_eq!(found, of_a);
}

async fn a_lower_count_takes_nothing_that_was_not_given_back(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    let before = side.allocator.update("pods", &node("a"), request(1, 8)).await.unwrap();
    let after = side.allocator.update("pods", &node("a"), request(2, 2)).await.unwrap();
    assert_eq!(before, after);
}

async fn a_short_subnet_gives_what_it_has_and_reports_the_rest(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    // A /29 has six, and one of them is the node's own.
    let got = side.allocator.update("pods", &node("a"), request(1, 16)).await.unwrap();
    assert_eq!((got.secondaries.len(), got.short), (5, 11));
    let again = side.allocator.update("pods", &node("a"), request(1, 16)).await.unwrap();
    assert_eq!(again, got);
}

async fn a_full_subnet_makes_no_container_and_keeps_its_name(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    side.allocator.update("pods", &node("a"), request(1, 5)).await.unwrap();
    let full = side.allocator.create("pods", &node("b")).await.unwrap_err();
    let subnet = "pods".to_owned();
    assert_eq!(full, AllocatorError::SubnetFull { subnet });
    assert_eq!(side.allocator.get("pods", &node("b")).await.unwrap(), None);
}

async fn deleting_twice_is_deleting_once(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    side.allocator.update("pods", &node("a"), request(1, 8)).await.unwrap();
    side.allocator.create("pods", &node("b")).await.unwrap();
    for _ in 0..2 {
        side.allocator.delete("pods", &node("a")).await.unwrap();
    }
    until_reserved(&side, 1).await;
}

async fn a_container_that_was_deleted_is_not_found(side: Side) {
    let made = side.allocator.create("pods", &node("a")).await.unwrap();
    let found = side.allocator.get("pods", &node("a")).await.unwrap();
    assert_eq!(found, Some(made));
    side.allocator.delete("pods", &node("a")).await.unwrap();
    assert_eq!(side.allocator.get("pods", &node("a")).await.unwrap(), None);
}

async fn who_waits_is_woken_by_a_release(side: Side) {
    side.allocator.create("pods", &node("a")).await.unwrap();
    let got = side.allocator.update("pods", &node("a"), request(1, 5)).await.unwrap();
    let seen = side.allocator.counts("pods").await.unwrap().freed;
    let allocator = Arc::clone(&side.allocator);
    let waiting = tokio::spawn(async move { allocator.freed("pods", seen).await });
    let update = Update {
        give_back: vec![got.secondaries[0].id],
        ..request(2, 4)
    };
    side.allocator.update("pods", &node("a"), update).await.unwrap();
    let freed = waiting.await.unwrap().unwrap();
    assert_ne!(freed, seen);
    side.allocator.create("pods", &node("b")).await.unwrap();
}

async fn counts_are_the_sum_of_what_the_containers_have(side: Side) {
    let mut sum = 0;
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        side.allocator.create("pods", &node(name)).await.unwrap();
        let update = request(u128::try_from(number).unwrap(), 3 * (number + 1));
        let has = side.allocator.update("pods", &node(name), update).await.unwrap();
        sum += has.secondaries.len() + 1;
    }
    let counted = until_reserved(&side, u128::try_from(sum).unwrap()).await;
    for (family, capacity) in [(Family::V4, 254), (Family::V6, 255)] {
        let counts = counted.families[&family];
        assert_eq!(counts.capacity, capacity);
        assert_eq!(counts.reserved, u128::try_from(sum).unwrap());
        assert_eq!(counts.reserved + counts.cooling_down + counts.free, counts.capacity);
    }
}

async fn a_subnet_that_is_not_known_is_named(side: Side) {
    let allocator = &side.allocator;
    let subnet = "elsewhere";
    let expected = AllocatorError::NoSubnet {
        subnet: subnet.to_owned(),
    };
    assert_eq!(allocator.create(subnet, &node("a")).await.unwrap_err(), expected);
    assert_eq!(
        allocator.update(subnet, &node("a"), request(1, 1)).await.unwrap_err(),
        expected
    );
    assert_eq!(allocator.delete(subnet, &node("a")).await.unwrap_err(), expected);
    assert_eq!(allocator.get(subnet, &node("a")).await.unwrap_err(), expected);
    assert_eq!(allocator.counts(subnet).await.unwrap_err(), expected);
    assert_eq!(allocator.freed(subnet, 0).await.unwrap_err(), expected);
}

async fn a_node_whose_name_is_two_is_refused(side: Side) {
    for name in ["a/b", "", &"n".repeat(600)] {
        let refused = side.allocator.create("pods", &node(name)).await.unwrap_err();
        assert!(matches!(refused, AllocatorError::NotAnOwner(_)), "{refused}");
    }
}

async fn until_reserved(side: &Side, reserved: u128) -> SubnetCounts {
    loop {
        let counted = side.allocator.counts("pods").await.unwrap();
        if counted.families[&Family::V4].reserved == reserved {
            return counted;
        }
        tokio::task::yield_now().await;
    }
}
