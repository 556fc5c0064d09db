#![no_main]

use berth_fuzz_bodies::parsing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parsing::run(data));
