//! `borough_fuzz::command_line` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| borough_fuzz::command_line::run(data));
