#![no_main]

#[path = "../../crates/addr/tests/fuzz_bodies/block_operations.rs"]
mod block_operations;

libfuzzer_sys::fuzz_target!(|data: &[u8]| block_operations::run(data));
