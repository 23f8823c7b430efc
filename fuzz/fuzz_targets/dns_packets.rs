//! `borough_fuzz::dns_packets` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| borough_fuzz::dns_packets::run(data));
