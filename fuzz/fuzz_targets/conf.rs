#![no_main]

use berth_fuzz_bodies::conf;

libfuzzer_sys::fuzz_target!(|data: &[u8]| conf::run(data));
