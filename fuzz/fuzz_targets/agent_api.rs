#![no_main]

use berth_fuzz_bodies::agent_api;

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_api::run(data));
