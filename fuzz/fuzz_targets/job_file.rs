//! `borough_fuzz::job_file` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| borough_fuzz::job_file::run(data));
