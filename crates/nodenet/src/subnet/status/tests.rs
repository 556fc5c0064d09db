use berth_api::SubnetSpec;

use super::*;

fn counts(reserved: u128) -> Counts {
    Counts {
        capacity: 100,
        reserved,
        cooling_down: 0,
        free: 100 - reserved,
    }
}

fn subnet(status: Option<SubnetStatus>) -> Subnet {
    let mut subnet = Subnet::new("pods", SubnetSpec::default());
    subnet.metadata.generation = Some(3);
    subnet.status = status;
    subnet
}

const NO_CONFLICTS: &BTreeSet<Conflict> = &BTreeSet::new();

fn report<'a>(
    verdict: &'a Verdict,
    cidrs: Option<&'a [Prefix]>,
    counts: Option<Counts>,
    fill: Fill,
) -> Report<'a> {
    Report {
        verdict,
        cidrs,
        counts,
        fill,
        conflicts: NO_CONFLICTS,
        service: None,
    }
}

fn cidrs() -> Vec<Prefix> {
    vec!["10.0.0.0/24".parse().unwrap()]
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn find<'a>(status: &'a SubnetStatus, type_: &str) -> &'a Condition {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .unwrap()
}

#[test]
fn a_good_subnet_is_ready_and_counted() {
    let status = status(
        &subnet(None),
        report(&Verdict::Ready, Some(&cidrs()), Some(counts(7)), Fill::Enough),
        at(1),
    );
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!((status.capacity, status.reserved), (Some(Count(100)), Some(Count(7))));
    let states: Vec<(&str, &str)> = status
        .conditions
        .iter()
        .map(|c| (c.type_.as_str(), c.status.as_str()))
        .collect();
    assert_eq!(
        states,
        [
            ("Ready", "True"),
            ("Overlapping", "False"),
            ("Exhausted", "False"),
            ("Conflict", "False")
        ]
    );
}

#[test]
fn a_refused_one_says_the_field_and_the_fix_and_has_no_counts() {
    let why = "spec.cidrs: 10.0.0.0/24 is also in Subnet a: delete one of the two".to_owned();
    let status = status(
        &subnet(None),
        report(&Verdict::Overlapping { why }, None, None, Fill::Enough),
        at(1),
    );
    assert_eq!(status.capacity, None);
    assert_eq!(find(&status, "Overlapping").status, "True");
    let ready = find(&status, "Ready");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Overlapping"));
    assert!(
        ready.message.starts_with("spec.cidrs: 10.0.0.0/24 is also in Subnet a"),
        "{}",
        ready.message
    );
}

#[test]
fn the_status_keeps_its_cidrs_when_the_report_has_none() {
    let good = status(
        &subnet(None),
        report(&Verdict::Ready, Some(&cidrs()), Some(counts(7)), Fill::Enough),
        at(1),
    );
    assert_eq!(good.cidrs, ["10.0.0.0/24"]);
    let why = "spec.cidrs: 10.0.0.0/24 is also in Subnet a".to_owned();
    let refused = status(
        &subnet(Some(good)),
        report(&Verdict::Overlapping { why }, None, None, Fill::Enough),
        at(2),
    );
    assert_eq!(
        (refused.cidrs, refused.capacity),
        (vec!["10.0.0.0/24".to_owned()], None)
    );
}

#[test]
fn a_condition_changes_its_time_with_its_status_only() {
    let first = status(
        &subnet(None),
        report(&Verdict::Ready, Some(&cidrs()), Some(counts(7)), Fill::Enough),
        at(1),
    );
    let same = status(
        &subnet(Some(first.clone())),
        report(&Verdict::Ready, Some(&cidrs()), Some(counts(7)), Fill::Enough),
        at(9),
    );
    assert_eq!(same, first);
    let full = status(
        &subnet(Some(first)),
        report(&Verdict::Ready, Some(&cidrs()), Some(counts(96)), Fill::Exhausted),
        at(9),
    );
    assert_eq!(find(&full, "Exhausted").last_transition_time.0, at(9));
    assert_eq!(find(&full, "Ready").last_transition_time.0, at(1));
}
