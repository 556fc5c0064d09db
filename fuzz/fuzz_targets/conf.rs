#![no_main]

#[path = "../../crates/cni/tests/fuzz_bodies/conf.rs"]
mod conf;

libfuzzer_sys::fuzz_target!(|data: &[u8]| conf::run(data));
