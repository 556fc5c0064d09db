#![no_main]

#[path = "../../crates/agent/tests/fuzz_bodies/journal.rs"]
mod journal;

libfuzzer_sys::fuzz_target!(|data: &[u8]| journal::run(data));
