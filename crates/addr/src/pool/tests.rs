use super::*;
use crate::layout::Plan;
use crate::range::Range;

const DELAY: u64 = 30_000;

fn plan(cidrs: &[&str]) -> Plan {
    Plan {
        cidrs: cidrs.iter().map(|text| text.parse().unwrap()).collect(),
        ..Plan::default()
    }
}

fn layout(plan: &Plan) -> Layout {
    plan.layouts().unwrap().pop_first().unwrap().1
}

fn pool(cidrs: &[&str]) -> Pool {
    Pool::new(layout(&plan(cidrs)), DELAY)
}

fn lease(pool: &mut Pool, now: u64) -> Option<String> {
    let unit = pool.lease(now)?;
    Some(pool.layout().prefix(unit).unwrap().first().to_string())
}

fn unit(pool: &Pool, address: &str) -> Unit {
    pool.layout().unit_around(address.parse().unwrap()).unwrap()
}

fn release(pool: &mut Pool, address: &str, now: u64) {
    let unit = unit(pool, address);
    pool.release(unit, now).unwrap();
}

#[test]
fn never_used_units_go_first_then_the_longest_cooled_down() {
    let mut pool = pool(&["10.0.0.0/29"]);
    for last in 1..=4 {
        assert_eq!(lease(&mut pool, 0).unwrap(), format!("10.0.0.{last}"));
    }
    release(&mut pool, "10.0.0.3", 10);
    release(&mut pool, "10.0.0.1", 20);
    let order: Vec<_> = std::iter::from_fn(|| lease(&mut pool, DELAY + 20)).collect();
    assert_eq!(order, ["10.0.0.5", "10.0.0.6", "10.0.0.3", "10.0.0.1"]);
}

#[test]
fn many_at_once_come_in_the_order_of_use() {
    let mut pool = pool(&["10.0.0.0/29"]);
    let given = pool.lease_up_to(4, 0);
    assert_eq!(pool.release_all(given[0].block(), &[3, 6], 0), Err(NotOwned));
    assert_eq!(pool.counts(0).reserved, 4, "all of them, or none");
    pool.release_all(given[0].block(), &[3], 10).unwrap();
    pool.release_all(given[0].block(), &[1], 20).unwrap();
    let order = pool.lease_up_to(9, DELAY + 20).into_iter();
    let order: Vec<u8> = order.map(Unit::offset).collect();
    assert_eq!(order, [5, 6, 3, 1]);
}

#[test]
fn a_unit_cooling_down_waits_until_all_cidrs_are_tried() {
    let mut pool = pool(&["10.0.0.0/31", "10.0.1.0/31"]);
    assert_eq!(lease(&mut pool, 0).unwrap(), "10.0.0.0");
    assert_eq!(lease(&mut pool, 0).unwrap(), "10.0.0.1");
    release(&mut pool, "10.0.0.1", 0);
    assert_eq!(lease(&mut pool, DELAY - 1).unwrap(), "10.0.1.0");
    assert_eq!(lease(&mut pool, DELAY).unwrap(), "10.0.0.1");
    assert_eq!(lease(&mut pool, DELAY).unwrap(), "10.0.1.1");
}

#[test]
fn the_rest_is_cut_short_before_anybody_is_refused() {
    let mut pool = pool(&["10.0.0.0/31", "10.0.1.0/31"]);
    assert_eq!(pool.lease_up_to(9, 0).len(), 4);
    assert_eq!(lease(&mut pool, 0), None);
    release(&mut pool, "10.0.0.0", 2);
    release(&mut pool, "10.0.1.1", 1);
    assert_eq!(pool.counts(2).cooling_down, 2);
    assert_eq!(lease(&mut pool, 2).unwrap(), "10.0.1.1");
    assert_eq!(lease(&mut pool, 2).unwrap(), "10.0.0.0");
    assert_eq!(lease(&mut pool, 2), None);
}

#[test]
fn counts_add_up_and_follow_the_clock() {
    let mut pool = pool(&["10.64.0.0/16"]);
    pool.lease_up_to(300, 0);
    release(&mut pool, "10.64.0.9", 1_000);
    let at = |now| pool.counts(now);
    let (capacity, reserved) = (65_534, 299);
    assert_eq!(
        at(1_000),
        Counts {
            capacity,
            reserved,
            cooling_down: 1,
            free: 65_234
        }
    );
    assert_eq!(
        at(1_000 + DELAY),
        Counts {
            capacity,
            reserved,
            cooling_down: 0,
            free: 65_235
        }
    );
}

#[test]
fn a_huge_pool_makes_only_the_blocks_it_uses() {
    let mut pool = pool(&["fd64::/64"]);
    assert_eq!(pool.blocks().count(), 0);
    assert_eq!(lease(&mut pool, 0).unwrap(), "fd64::1");
    let far = unit(&pool, "fd64::ffff:ffff:ffff:ffff");
    pool.claim(far).unwrap();
    assert_eq!(pool.blocks().count(), 2);
    assert_eq!(pool.counts(0).reserved, 2);
    assert_eq!(pool.counts(0).free, u128::from(u64::MAX) - 2);
}

#[test]
fn a_unit_can_be_claimed_once_and_only_if_it_is_assignable() {
    let mut pool = pool(&["10.0.0.0/29"]);
    let (fifth, network) = (unit(&pool, "10.0.0.5"), unit(&pool, "10.0.0.0"));
    assert_eq!(pool.claim(fifth), Ok(()));
    assert_eq!(pool.claim(fifth), Err(ClaimError::Owned));
    assert_eq!(pool.claim(network), Err(ClaimError::SetAside));
    assert_eq!(pool.claim(Unit(8)), Err(ClaimError::OutsidePool));
    assert_eq!(pool.release(Unit(8), 0), Err(NotOwned));
    assert_eq!(pool.release(network, 0), Err(NotOwned));
}

#[test]
fn what_a_store_says_of_a_block_replaces_what_was_known() {
    let mut pool = pool(&["10.0.0.0/29"]);
    pool.lease_up_to(3, 0);
    let block = BlockNumber(0);
    pool.restore(block, Bitmap::from_iter([6]), [(5, 7)]).unwrap();
    assert_eq!(pool.counts(7).reserved, 1);
    assert_eq!(pool.state(unit(&pool, "10.0.0.5")), Some(State::Released { at: 7 }));
    let order: Vec<_> = std::iter::from_fn(|| lease(&mut pool, 7)).collect();
    assert_eq!(order, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"]);
}

#[test]
fn a_record_of_unknown_units_is_refused_and_changes_nothing() {
    let mut pool = pool(&["10.0.0.0/29"]);
    let beyond = Bitmap::from_iter([8]);
    assert_eq!(pool.restore(BlockNumber(0), beyond, []), Err(OutsidePool));
    assert_eq!(pool.restore(BlockNumber(1), Bitmap::EMPTY, []), Err(OutsidePool));
    assert_eq!(pool.blocks().count(), 0);
}

#[test]
fn the_units_of_an_idle_block_are_given_after_unused_ones() {
    let mut pool = pool(&["10.0.0.0/23"]);
    let first_block = pool.lease_up_to(255, 0);
    for unit in first_block {
        pool.release(unit, 0).unwrap();
    }
    assert_eq!(pool.idle(DELAY - 1).count(), 0);
    assert_eq!(pool.idle(DELAY).collect::<Vec<_>>(), [BlockNumber(0)]);
    let forgotten = pool.forget(BlockNumber(0)).unwrap();
    assert_eq!(forgotten.released().count(), 255);
    assert_eq!(pool.blocks().count(), 0);
    assert_eq!(pool.counts(DELAY).free, 510);
    assert_eq!(lease(&mut pool, DELAY).unwrap(), "10.0.1.0");
    pool.lease_up_to(254, DELAY);
    assert_eq!(lease(&mut pool, DELAY).unwrap(), "10.0.0.1");
}

#[test]
fn a_layout_change_keeps_owners_and_units_cooling_down() {
    let mut pool = pool(&["10.0.0.0/29"]);
    pool.lease_up_to(6, 0);
    release(&mut pool, "10.0.0.2", 5);
    let mut wider = plan(&["10.0.0.0/29", "10.0.1.0/29"]);
    wider.excludes = vec!["10.0.0.4".parse::<Range>().unwrap()];
    let mut pool = pool.with_layout(layout(&wider)).unwrap();
    let (reserved, cooling_down) = (5, 1);
    assert_eq!(
        pool.counts(5),
        Counts {
            capacity: 12,
            reserved,
            cooling_down,
            free: 6
        },
        "the excluded unit counts while it is owned"
    );
    assert_eq!(lease(&mut pool, 5).unwrap(), "10.0.1.1");
    release(&mut pool, "10.0.0.4", 6);
    assert_eq!(pool.state(unit(&pool, "10.0.0.4")), Some(State::SetAside));
    assert_eq!(pool.counts(6).capacity, 11);
    assert_eq!(lease(&mut pool, 5 + DELAY).unwrap(), "10.0.0.2");
}

#[test]
fn a_cidr_in_use_can_be_neither_removed_nor_shrunk() {
    let mut pool = pool(&["10.0.0.0/24"]);
    let last = unit(&pool, "10.0.0.200");
    pool.claim(last).unwrap();
    for cidr in ["10.0.0.0/25", "10.1.0.0/24"] {
        let refused = pool.with_layout(layout(&plan(&[cidr]))).unwrap_err();
        assert!(refused.to_string().contains("10.0.0.200/32 is in use"));
    }
    pool.release(last, 0).unwrap();
    assert!(pool.with_layout(layout(&plan(&["10.0.0.0/25"]))).is_ok());
}
