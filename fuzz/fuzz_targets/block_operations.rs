#![no_main]

use berth_fuzz_bodies::block_operations;

libfuzzer_sys::fuzz_target!(|data: &[u8]| block_operations::run(data));
