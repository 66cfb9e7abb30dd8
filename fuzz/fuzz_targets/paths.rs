//! Fuzzes request routing. A request goes to the mount that its path names, or to no mount. Its
//! target is kept as it came or joined to the base's path, byte for byte.

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
    mounted(path, asked);
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
        mapped == asked
            || mapped == format!("{base}{joined}")
            || mapped == format!("{base}{asked}"),
        "{asked} at {base} became {mapped}"
    );
    // longhaul's own paths are never forwarded, whatever the base is.
    assert!(!asked.starts_with("/__longhaul__/"), "{asked}");
});

/// Checks mounting; a mount's path is letters, digits, dashes and underscores between slashes.
fn mounted(mount: &str, asked: &str) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let fits = |segment: &str| !segment.is_empty() && segment.bytes().all(plain);
    let Some(segments) = mount.strip_prefix('/') else {
        return;
    };
    if !segments.split('/').all(fits) || !asked.starts_with('/') {
        return;
    }
    let asked = asked.split('#').next().unwrap_or_default();
    let known = asked.parse::<http::Uri>().is_ok();
    let expected = asked
        .strip_prefix(mount)
        .and_then(|rest| match rest.chars().next() {
            None | Some('?') => Some(format!("/{rest}")),
            Some('/') => Some(rest.to_owned()),
            Some(_) => None,
        });
    let found = longhaul::fuzzing::under(asked, mount);
    assert_eq!(found, expected.filter(|_| known), "{asked} under {mount}");
}
