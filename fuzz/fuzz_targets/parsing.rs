#![no_main]

#[path = "../../crates/addr/tests/fuzz_bodies/parsing.rs"]
mod parsing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parsing::run(data));
