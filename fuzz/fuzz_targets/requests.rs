//! `borough_fuzz::requests` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| borough_fuzz::requests::run(data));
