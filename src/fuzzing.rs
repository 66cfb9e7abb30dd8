//! Checks of the fuzz targets `settings` and `paths`, and random cases for `cargo test`.

use http::Uri;
use http::uri::PathAndQuery;

use crate::Config;
use crate::config::{BaseUrl, Layers};
use crate::request::paths;

/// Checks that a configuration file gives settings or problems, and the same ones each time.
///
/// # Panics
/// If the check fails.
pub fn check_settings(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let read = || {
        let config = Config::from_resolved(&Layers::of_text(text).resolve().ok()?).ok()?;
        Some(format!("{config:?}"))
    };
    assert_eq!(read(), read());
}

/// Checks where a request goes. `input` is the path of the base and the request's target, a line each.
/// The target is kept as sent or joined to the base's path, byte for byte. A request goes to the mount
/// that its path names, or to no mount.
///
/// # Panics
/// If the check fails.
pub fn check_paths(input: &[u8]) {
    let lines = str::from_utf8(input).ok();
    let Some((path, requested)) = lines.and_then(|lines| lines.split_once('\n')) else {
        return;
    };
    check_mount(path, requested);
    let base = BaseUrl::parse(&format!("http://upstream.example{path}"));
    let (Ok(base), Ok(target)) = (base, requested.parse::<PathAndQuery>()) else {
        return;
    };
    let Ok(mapped) = paths::map(&base, &target) else {
        return;
    };
    let requested = requested.split('#').next().unwrap_or_default();
    if !requested.starts_with('/') || !(path.is_empty() || path.starts_with('/')) {
        return;
    }
    let base = path.trim().trim_end_matches('/');
    let joined = requested.strip_prefix("/v1").unwrap_or(requested);
    assert!(
        mapped.as_str() == requested
            || mapped.as_str() == format!("{base}{joined}")
            || mapped.as_str() == format!("{base}{requested}"),
        "{requested} at {base} became {mapped}"
    );
    // longhaul's own paths are never forwarded, whatever the base is.
    assert!(!requested.starts_with("/__longhaul__/"), "{requested}");
}

/// Checks mounting. A mount's path is letters, digits, dashes and underscores between slashes.
fn check_mount(mount: &str, requested: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_segment = |segment: &str| !segment.is_empty() && segment.bytes().all(is_plain);
    let is_mount =
        mount.strip_prefix('/').is_some_and(|segments| segments.split('/').all(is_segment));
    if !is_mount || !requested.starts_with('/') {
        return;
    }
    let found = requested.parse::<Uri>().ok().and_then(|target| {
        let rest = paths::strip_mount(&target, mount)?;
        Some(rest.path_and_query()?.as_str().to_owned())
    });
    let requested = requested.split('#').next().unwrap_or_default();
    let is_target = requested.parse::<Uri>().is_ok();
    let rest = requested.strip_prefix(mount);
    let expected = rest.and_then(|rest| match rest.chars().next() {
        None | Some('?') => Some(format!("/{rest}")),
        Some('/') => Some(rest.to_owned()),
        Some(_) => None,
    });
    assert_eq!(found, expected.filter(|_| is_target), "{requested} under {mount}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// A line of the shipped file, as it is, with its comment removed, or with another value.
    fn line() -> impl Strategy<Value = String> {
        let lines: Vec<&str> = include_str!("../config/default.toml").lines().collect();
        (select(lines), 0..4, "[ -~é]{0,9}").prop_map(|(line, change, text)| match change {
            0 => line.to_owned(),
            1 => line.trim_start_matches("# ").to_owned(),
            2 => format!("{line}{text}"),
            _ => match line.split_once('=') {
                Some((key, _)) => format!("{key}= {text}"),
                None => text,
            },
        })
    }

    proptest! {
        #[test]
        fn settings_of_random_files_are_read_alike_twice(
            lines in prop::collection::vec(line(), 0..40),
        ) {
            check_settings(lines.join("\n").as_bytes());
        }

        #[test]
        fn random_targets_go_to_their_base_or_mount(
            base in "(/(v1|api|a|a_b-c|openai/v1)){0,3}/?",
            tail in "(/(v1|a|chat/completions|__longhaul__/x|%2e|\\.\\.|é)){0,4}[/?#a=%]{0,4}",
            is_below in any::<bool>(),
        ) {
            let target = if is_below { format!("{base}{tail}") } else { tail };
            check_paths(format!("{base}\n{target}").as_bytes());
        }
    }
}
