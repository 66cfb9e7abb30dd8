//! Where a request goes: as it was asked, or joined to the base's path, byte for byte.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    // The first line is the base's path, the second the target.
    let Some((path, asked)) = text.split_once('\n') else {
        return;
    };
    let base = format!("http://upstream.example{path}");
    let Some(mapped) = longhaul::fuzzing::mapped(&base, asked) else {
        return;
    };
    let base = path.trim().trim_end_matches('/');
    let asked = asked.split('#').next().unwrap_or_default();
    if !asked.starts_with('/') || !(path.is_empty() || path.starts_with('/')) {
        return;
    }
    let joined = asked.strip_prefix("/v1").unwrap_or(asked);
    assert!(
        mapped == asked || mapped == format!("{base}{joined}") || mapped == format!("{base}{asked}"),
        "{asked} at {base} became {mapped}"
    );
    assert!(!mapped.starts_with("/__longhaul__/"));
});
