use super::*;

fn plan(cidrs: &[&str]) -> Plan {
    Plan {
        cidrs: cidrs.iter().map(|text| text.parse().unwrap()).collect(),
        ..Plan::default()
    }
}

fn ranges(texts: &[&str]) -> Vec<Range> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn only(plan: &Plan) -> Layout {
    let mut layouts = plan.layouts().unwrap();
    layouts.pop_first().unwrap().1
}

fn refusal(plan: &Plan) -> String {
    plan.layouts().unwrap_err().to_string()
}

fn usable(layout: &Layout) -> Vec<String> {
    let units = layout.usable.iter().flat_map(|(first, last)| first..=last);
    units.map(|n| layout.prefix(Unit(n)).unwrap().to_string()).collect()
}

#[test]
fn network_and_broadcast_are_kept_out_where_there_are_any() {
    assert_eq!(usable(&only(&plan(&["10.0.0.4/30"]))), ["10.0.0.5/32", "10.0.0.6/32"]);
    assert_eq!(usable(&only(&plan(&["10.0.0.4/31"]))), ["10.0.0.4/32", "10.0.0.5/32"]);
    assert_eq!(usable(&only(&plan(&["10.0.0.4/32"]))), ["10.0.0.4/32"]);
    assert_eq!(only(&plan(&["10.64.0.0/16"])).capacity(), 65_534);
}

#[test]
fn ipv6_keeps_out_the_anycast_address_but_not_the_last() {
    assert_eq!(
        usable(&only(&plan(&["fd64::4/126"]))),
        ["fd64::5/128", "fd64::6/128", "fd64::7/128"]
    );
    assert_eq!(usable(&only(&plan(&["fd64::4/127"]))), ["fd64::4/128", "fd64::5/128"]);
    assert_eq!(only(&plan(&["fd64::/64"])).capacity(), u128::from(u64::MAX));
    assert_eq!(only(&plan(&["::/0"])).capacity(), u128::MAX);
}

#[test]
fn units_that_are_networks_keep_both_ends() {
    let mut plan = plan(&["10.64.0.0/22", "fd64::/62"]);
    plan.unit_lengths = UnitLengths { ipv4: 24, ipv6: 64 };
    for layout in plan.layouts().unwrap().values() {
        assert_eq!(layout.capacity(), 4);
    }
}

#[test]
fn gateways_and_name_servers_are_kept_out_when_inside() {
    let mut plan = plan(&["10.64.0.0/16"]);
    plan.reservations = ["10.64.0.1", "10.64.0.53", "192.0.2.1", "fd64::1"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    assert_eq!(only(&plan).capacity(), 65_532);
}

#[test]
fn ranges_and_excludes_cut_to_whole_units_on_the_safe_side() {
    let mut plan = plan(&["10.64.0.0/21"]);
    plan.unit_lengths.ipv4 = 24;
    plan.ranges = ranges(&["10.64.0.1-10.64.4.255", "10.64.6.0-10.64.7.254"]);
    plan.excludes = ranges(&["10.64.3.255-10.64.4.0"]);
    assert_eq!(usable(&only(&plan)), ["10.64.1.0/24", "10.64.2.0/24", "10.64.6.0/24"]);
}

#[test]
fn a_range_without_a_whole_unit_has_a_capacity_of_zero() {
    let mut plan = plan(&["::/0"]);
    plan.unit_lengths.ipv6 = 1;
    plan.ranges = ranges(&["9000::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]);
    assert_eq!(only(&plan).capacity(), 0);
}

#[test]
fn ranges_of_one_family_leave_the_other_whole() {
    let mut plan = plan(&["10.64.0.0/24", "fd64::/120"]);
    plan.ranges = ranges(&["10.64.0.10-10.64.0.19"]);
    let layouts = plan.layouts().unwrap();
    assert_eq!(layouts[&Family::V4].capacity(), 10);
    assert_eq!(layouts[&Family::V6].capacity(), 255);
}

#[test]
fn every_unit_has_a_number_and_every_number_its_unit() {
    let layout = only(&plan(&["10.1.0.0/23", "10.0.0.0/30", "10.2.0.0/24"]));
    for (text, number) in [
        ("10.1.0.0/32", 0),
        ("10.1.1.255/32", 511),
        ("10.0.0.3/32", 515),
        ("10.2.0.0/32", 768),
    ] {
        let prefix = text.parse().unwrap();
        assert_eq!(layout.unit(prefix), Some(Unit(number)), "{text}");
        assert_eq!(layout.prefix(Unit(number)), Some(prefix));
    }
    for text in ["10.0.0.4/32", "10.1.0.0/31", "fd64::/128"] {
        assert_eq!(layout.unit(text.parse().unwrap()), None, "{text}");
    }
    assert_eq!(layout.prefix(Unit(516)), None, "the rest of a short block");
    assert_eq!(layout.prefix(Unit(1024)), None);
}

#[test]
fn appending_a_cidr_changes_no_number() {
    let before = only(&plan(&["10.1.0.0/24", "10.0.0.0/30"]));
    let after = only(&plan(&["10.1.0.0/24", "10.0.0.0/30", "9.0.0.0/8"]));
    for n in (0..=255).chain(256..=259) {
        assert_eq!(before.prefix(Unit(n)), after.prefix(Unit(n)));
    }
}

#[test]
fn a_blocks_name_is_its_first_address_and_finds_it_again() {
    let mut plan = plan(&["10.64.0.0/16", "10.0.0.4/30", "fd64::/64"]);
    plan.unit_lengths.ipv6 = 120;
    let layouts = plan.layouts().unwrap();
    for (family, block, name) in [
        (Family::V4, 1, "10.64.1.0"),
        (Family::V4, 256, "10.0.0.4"),
        (Family::V6, 0x1_0002, "fd64.0.0.0.0.1.2.0"),
    ] {
        let layout = &layouts[&family];
        assert_eq!(layout.block_name(BlockNumber(block)).unwrap(), name);
        assert_eq!(layout.block_named(name), Some(BlockNumber(block)));
    }
    for stranger in ["10.64.1.1", "10.65.0.0", "10.64.1", "", "fd64::", "fd64.0.0.0.0.1.2.0"] {
        assert_eq!(layouts[&Family::V4].block_named(stranger), None, "{stranger}");
    }
    assert_eq!(layouts[&Family::V6].block_named("fd64.0.0.0.0.1.02.0"), None);
}

#[test]
fn the_whole_address_space_can_be_one_unit_or_single_addresses() {
    for (cidr, ends) in [
        ("0.0.0.0/0", ["0.0.0.0/32", "255.255.255.255/32"]),
        ("::/0", ["::/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"]),
    ] {
        let mut plan = plan(&[cidr]);
        for end in ends.map(|text| text.parse().unwrap()) {
            let layout = only(&plan);
            assert_eq!(layout.prefix(layout.unit(end).unwrap()), Some(end));
        }
        plan.unit_lengths = UnitLengths { ipv4: 0, ipv6: 0 };
        assert_eq!(usable(&only(&plan)), [cidr]);
    }
}

#[test]
fn a_bad_plan_is_refused_by_field_and_fix() {
    assert_eq!(
        refusal(&plan(&[])),
        "cidrs: there is none: name at least one, like 10.64.0.0/16"
    );
    assert_eq!(
        refusal(&plan(&["10.64.0.0/16", "10.0.0.0/8"])),
        "cidrs: 10.64.0.0/16 and 10.0.0.0/8 overlap: remove one of them"
    );
    for unit_length in [15, 33] {
        let mut bad = plan(&["10.64.0.0/16"]);
        bad.unit_lengths.ipv4 = unit_length;
        assert_eq!(
            refusal(&bad),
            format!(
                "unitLengths: a /{unit_length} can't be cut from 10.64.0.0/16: use 16 \
                 to 32 for IPv4"
            )
        );
    }
    for outside in ["10.65.0.1", "10.64.255.255-10.65.0.0", "fd64::1"] {
        let mut bad = plan(&["10.64.0.0/16"]);
        bad.ranges = ranges(&[outside]);
        assert!(refusal(&bad).starts_with(&format!("ranges: {outside} is not inside")));
        let mut bad = plan(&["10.64.0.0/16"]);
        bad.excludes = ranges(&[outside]);
        assert!(refusal(&bad).starts_with(&format!("excludes: {outside} is not inside")));
    }
}

#[test]
fn more_units_than_numbers_are_refused() {
    // All of IPv6 in pieces: the two halves of the first block take a block each, which is one too
    // many.
    let mut cidrs = vec!["::/121".to_owned()];
    for length in (1..=121).rev() {
        let first = 1u128 << (128 - length);
        cidrs.push(format!("{}/{length}", Family::V6.address(first)));
    }
    let cidrs: Vec<&str> = cidrs.iter().map(String::as_str).collect();
    assert_eq!(
        plan(&cidrs).layouts().unwrap_err(),
        LayoutError::TooLarge { family: Family::V6 }
    );
}

#[test]
fn plans_that_share_a_cidr_have_only_their_ranges() {
    let with = |ranges: &[&str]| Plan {
        ranges: ranges.iter().map(|range| range.parse().unwrap()).collect(),
        shares_cidrs: true,
        ..plan(&["10.0.0.0/24", "fd00::/64"])
    };
    let (one, other) = (
        with(&["10.0.0.10-10.0.0.19"]),
        with(&["10.0.0.20-10.0.0.29", "fd00::1-fd00::9"]),
    );
    let shared: Vec<String> = one
        .space()
        .unwrap()
        .intersect(&other.space().unwrap())
        .ranges()
        .map(|r| r.to_string())
        .collect();
    assert_eq!(shared, ["fd00::1-fd00::9"]);
    assert!(one.space().unwrap().covers("10.0.0.19".parse::<IpAddr>().unwrap()));
    let alone = Plan {
        shares_cidrs: false,
        ..one
    };
    assert!(alone.space().unwrap().covers("10.0.0.20".parse::<IpAddr>().unwrap()));
}

#[test]
fn the_capacity_of_a_part_leaves_out_what_is_kept_out() {
    let mut plan = plan(&["10.64.0.0/24", "10.65.0.0/24"]);
    plan.excludes = ranges(&["10.64.0.16-10.64.0.19"]);
    let layout = only(&plan);
    let of = |part: &str| layout.capacity_of(part.parse().unwrap());
    assert_eq!(of("10.64.0.0/24"), 250);
    assert_eq!(of("10.64.0.0/28"), 15);
    assert_eq!(of("10.64.0.16/28"), 12);
    assert_eq!(of("10.64.0.16/32"), 0);
    assert_eq!(of("10.65.0.1/32"), 1);
    assert_eq!((of("10.64.0.0/15"), of("10.66.0.0/24")), (0, 0));
}
