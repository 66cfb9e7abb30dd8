//! Fuzzes configuration files: parsing gives settings or problems, and is deterministic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let read = || longhaul::fuzzing::settings(text).map(|config| format!("{config:?}"));
    assert_eq!(read(), read());
});
