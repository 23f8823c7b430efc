//! `borough_fuzz::store_files` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| borough_fuzz::store_files::run(data));
