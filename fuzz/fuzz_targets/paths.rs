//! Fuzzes request routing.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| longhaul::fuzzing::check_paths(input));
