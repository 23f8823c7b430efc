//! `borough_fuzz::names` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| borough_fuzz::names::run(data));
