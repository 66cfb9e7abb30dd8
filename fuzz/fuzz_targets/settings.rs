//! Fuzzes configuration files.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| longhaul::fuzzing::check_settings(input));
