//! `borough_fuzz::amounts` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| borough_fuzz::amounts::run(data));
