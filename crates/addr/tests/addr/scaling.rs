//! How large a node's pool is to be, by the shared vectors and by what went wrong elsewhere.

use berth_addr::scaling::{
    Holding, Phase, PodOnNode, Scaler, Step, Supply, demand, reconcile, target,
};
use proptest::prelude::*;
use serde_json::Value;

fn vectors(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../vectors/pool-scaling.json")).unwrap();
    let vectors = all[name].as_array().unwrap().clone();
    assert!(!vectors.is_empty());
    vectors
}

fn supply(exhausted: bool) -> Supply {
    if exhausted { Supply::Exhausted } else { Supply::Enough }
}

fn scaler() -> Scaler {
    Scaler::from_wire(16, 50, 250)
}

fn percent(buffer: &Value) -> i64 {
    let text = buffer.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}{fraction:0<2}").parse().unwrap()
}

#[test]
fn target_vectors_pass() {
    for vector in vectors("target") {
        let number = |key: &str| vector[key].as_i64().unwrap();
        let scaler = Scaler::from_wire(number("batch"), percent(&vector["buffer"]), number("max"));
        let exhausted = supply(vector["exhausted"].as_bool().unwrap_or(false));
        let demand = vector["demand"].as_u64().unwrap();
        assert_eq!(
            Some(target(demand, scaler, exhausted)),
            vector["want"].as_u64(),
            "{vector}"
        );
    }
}

#[test]
fn reconcile_vectors_pass() {
    for vector in vectors("reconcile") {
        let number = |key: &str| vector[key].as_u64().unwrap();
        let holding = Holding {
            demand: number("demand"),
            held: number("requested"),
            assigned: 0,
            pending_release: number("pendingRelease"),
        };
        let step = reconcile(holding, scaler(), Supply::Enough);
        assert_eq!(step.requested, number("wantRequested"), "{vector}");
        assert_eq!(step.not_in_use, number("wantNotInUse"), "{vector}");
    }
}

#[test]
fn demand_vectors_pass() {
    for vector in vectors("demand") {
        let phases = vector["phases"].as_array().unwrap().iter();
        let pods = phases.map(|phase| PodOnNode {
            phase: Phase::from_name(phase.as_str().unwrap()),
            host_network: false,
        });
        assert_eq!(Some(demand(pods)), vector["want"].as_u64(), "{vector}");
    }
}

#[test]
fn host_network_pods_are_no_demand_and_unknown_phases_are() {
    let pods = [("Running", true), ("Unknown", false), ("", false)].map(|(phase, host_network)| {
        PodOnNode {
            phase: Phase::from_name(phase),
            host_network,
        }
    });
    assert_eq!(demand(pods), 2);
}

#[test]
fn a_max_of_zero_is_no_cap_and_not_a_target_of_zero() {
    assert_eq!(target(5, Scaler::from_wire(16, 50, 0), Supply::Enough), 16);
    assert_eq!(target(500, Scaler::from_wire(16, 50, 0), Supply::Enough), 512);
    assert_eq!(target(5, Scaler::from_wire(16, 50, -1), Supply::Exhausted), 6);
}

#[test]
fn a_scaler_that_is_missing_altogether_keeps_the_pool() {
    let missing = Scaler::from_wire(0, 0, 0);
    assert_eq!([0, 25].map(|demand| target(demand, missing, Supply::Enough)), [16, 48]);
    assert_eq!(Scaler::from_wire(-1, -1, -1), missing);
}

#[test]
fn shrinking_is_reckoned_from_what_was_delivered() {
    let short = Holding {
        demand: 1,
        held: 20,
        assigned: 1,
        pending_release: 0,
    };
    let step = reconcile(short, scaler(), Supply::Enough);
    assert_eq!((step.requested, step.release), (16, 4));
}

#[test]
fn an_assigned_address_is_never_given_back() {
    let finished_but_not_deleted = Holding {
        demand: 0,
        held: 48,
        assigned: 40,
        pending_release: 0,
    };
    assert_eq!(reconcile(finished_but_not_deleted, scaler(), Supply::Enough).release, 8);
}

#[test]
fn growing_again_keeps_the_names_that_are_pending() {
    let pending = Holding {
        demand: 25,
        held: 16,
        assigned: 16,
        pending_release: 16,
    };
    let step = reconcile(pending, scaler(), Supply::Enough);
    assert_eq!(
        step,
        Step {
            requested: 48,
            release: 0,
            not_in_use: 16
        }
    );
}

#[test]
fn the_largest_numbers_saturate() {
    let greedy = Scaler::from_wire(i64::MAX, i64::MAX, 0);
    assert_eq!(target(u64::MAX, greedy, Supply::Enough), u64::MAX);
    assert_eq!(target(u64::MAX, greedy, Supply::Exhausted), u64::MAX);
}

proptest! {
    #[test]
    fn a_second_step_after_marking_marks_nothing_more(
        demand in 0u64..400, held in 0u64..400, assigned in 0u64..400, pending in 0u64..100, exhausted: bool,
    ) {
        let exhausted = supply(exhausted);
        let before = Holding { demand, held, assigned: assigned.min(held), pending_release: pending };
        let first = reconcile(before, scaler(), exhausted);
        let marked = Holding { held: held - first.release, pending_release: first.not_in_use, ..before };
        let second = reconcile(marked, scaler(), exhausted);
        prop_assert_eq!(second, Step { release: 0, ..first });
    }

    #[test]
    fn the_target_is_the_fewest_batches_that_keep_the_share_free(
        demand in 0u64..100_000, batch in 1i64..500, percent in 0i64..300,
    ) {
        let got = u128::from(target(demand, Scaler::from_wire(batch, percent, 0), Supply::Enough));
        let batch = u128::try_from(batch).unwrap();
        let needed = u128::from(demand) * 100 + u128::try_from(percent).unwrap() * batch;
        prop_assert_eq!(got % batch, 0);
        prop_assert!(got * 100 >= needed);
        prop_assert!(got == 0 || (got - batch) * 100 < needed);
    }
}
