//! Records to write.

use berth_ledger::{Kind, LeaseId, Owner, Record, Tenure};
use proptest::prelude::*;

/// Of one unit, and told apart by its owner.
pub fn of(name: &str) -> Record {
    let owner = Owner::new(Kind::Secondary, "cluster", name, "uid").unwrap();
    let lease = LeaseId::from_u128(7);
    Record::new([(7, tenure(owner, lease, 5))], [(8, 1_763_179_200_123)]).unwrap()
}

fn tenure(owner: Owner, lease: LeaseId, since: u64) -> Tenure {
    Tenure { owner, lease, since }
}

/// Whatever a ledger could write until the year 9999.
pub fn any() -> impl Strategy<Value = Record> {
    let name = prop_oneof!["[a-c]", "\\PC{1,40}"];
    let owner =
        name.prop_filter_map("no slash", |name| Owner::new(Kind::Secondary, "c", &name, "").ok());
    let since = 0..253_402_207_200_000u64;
    let tenure =
        (owner, any_lease(), since).prop_map(|(owner, lease, since)| tenure(owner, lease, since));
    let unit = prop_oneof![tenure.prop_map(Ok), (0..253_402_207_200_000u64).prop_map(Err)];
    prop::collection::btree_map(proptest::prelude::any::<u8>(), unit, 1..=256).prop_map(|units| {
        let owned = units
            .iter()
            .filter_map(|(offset, unit)| Some((*offset, unit.clone().ok()?)));
        let released = units
            .iter()
            .filter_map(|(offset, unit)| Some((*offset, unit.clone().err()?)));
        Record::new(owned, released).unwrap()
    })
}

fn any_lease() -> impl Strategy<Value = LeaseId> {
    proptest::prelude::any::<u128>().prop_map(LeaseId::from_u128)
}

/// 256 owners, each as long as can be.
pub fn longest() -> Record {
    let owned = (0..=255u8).map(|offset| {
        let owner = Owner::new(Kind::Secondary, "c", &format!("{offset:-<499}"), "").unwrap();
        assert_eq!(owner.as_str().len(), 512);
        (
            offset,
            Tenure {
                owner,
                lease: LeaseId::from_u128(u128::MAX),
                since: 253_402_207_199_999 - u64::from(offset),
            },
        )
    });
    Record::new(owned, []).unwrap()
}
