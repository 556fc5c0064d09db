#![no_main]

use berth_fuzz_bodies::agent_journal;

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_journal::run(data));
