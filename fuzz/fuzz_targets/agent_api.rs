#![no_main]

#[path = "../../crates/agent/tests/fuzz_bodies/api.rs"]
mod api;

libfuzzer_sys::fuzz_target!(|data: &[u8]| api::run(data));
