//! Addresses and blocks.

use berth_testkit::fuzz::run_seeded;
use proptest::prelude::*;

use crate::{block_operations, parsing};

/// Mostly pieces of addresses, as random bytes hardly ever get past the first character.
fn address_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => prop::sample::select(vec![
            "10.64.0.0", "10.0.0.1", "255.255.255.255", "0.0.0.0", "fd64::", "::", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:10.0.0.1",
        ]).prop_map(str::to_owned),
        4 => prop::sample::select(vec!["/", "-", ":", ".", "%", " ", "+"]).prop_map(str::to_owned),
        3 => (0u16..300).prop_map(|n| n.to_string()),
        1 => ".{0,3}",
    ];
    let pieces = prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![9 => pieces, 1 => prop::collection::vec(any::<u8>(), 0..24)]
}

#[test]
fn parsing_survives_20_000_inputs() {
    run_seeded(20_000, address_like(), parsing::run);
}

#[test]
fn block_operations_survive_2_000_inputs() {
    run_seeded(2_000, prop::collection::vec(any::<u8>(), 0..400), block_operations::run);
}
