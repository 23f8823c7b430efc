//! `borough_fuzz::certificates` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| borough_fuzz::certificates::run(data));
