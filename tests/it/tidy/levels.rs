//! The levels of the code: a file uses only its own module and lower levels.
//!
//! Paths are read as text: `crate::x`, chains of `super::`, and the braces after either. The house
//! style names modules of the crate in `use` lines, so the search finds every path without a
//! parser.

use super::{File, check, files};

/// The modules of the crate, from the lowest level to the highest. Modules on the same level do not
/// use each other.
///
/// The core and the mock model are crates of their own, and Cargo keeps them apart: an upstream must
/// not agree with the proxy by construction.
const LEVELS: &[&[&str]] = &[
    &["limits", "models", "wall_clock"],
    &["error", "metrics"],
    &["costs", "report", "traces"],
    &["config"],
    &["learned"],
    &["body", "store", "upstream"],
    &["summaries", "telemetry"],
    &["dashboard"],
    &["chat", "exchange", "proxy", "request", "services"],
    &["admin"],
    &["server"],
    &["cli", "fuzzing"],
    &["lib", "main"],
];

/// Pairs on the same level that may use each other: metrics count faults, and have a counter per
/// fault.
const TOGETHER: &[(&str, &str)] = &[
    ("error", "metrics"),
    ("metrics", "error"),
    ("body", "upstream"),
    ("upstream", "body"),
    ("learned", "upstream"),
    ("chat", "exchange"),
    ("chat", "proxy"),
    ("chat", "request"),
    ("chat", "services"),
    ("exchange", "proxy"),
    ("exchange", "request"),
    ("proxy", "chat"),
    ("proxy", "exchange"),
    ("proxy", "request"),
    ("proxy", "services"),
    ("request", "exchange"),
    ("request", "proxy"),
    ("services", "exchange"),
    ("services", "proxy"),
    ("services", "request"),
];

/// Facilities that the pure core must not use: runtime, network, logs, clock, files, environment.
const IMPURE: &[&str] = &[
    "async ",
    ".await",
    "tokio::",
    "hyper",
    "http::",
    "tracing::",
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time",
    "rand::",
];

fn level(module: &str) -> Option<usize> {
    LEVELS.iter().position(|level| level.contains(&module))
}

/// Returns the module of the crate that a path in `src` belongs to.
fn module(path: &str) -> &str {
    let path = path.strip_prefix("src/").unwrap_or(path);
    let first = path.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Returns the number of modules between a file and the crate's root: `src/a.rs` is 1, `src/a/b.rs`
/// is 2.
fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Returns the modules of the crate that a file names.
fn named(file: &File) -> Vec<String> {
    let code: String = file
        .text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let to_the_crate = "super::".repeat(depth(&file.path));
    let mut found = after(&code, "crate::");
    found.extend(after(&code, &to_the_crate));
    found.retain(|name| level(name).is_some());
    found.sort();
    found.dedup();
    found
}

/// Returns the first names after each `prefix`, including those in braces.
fn after(code: &str, prefix: &str) -> Vec<String> {
    code.match_indices(prefix)
        .filter(|(at, _)| {
            let before = code.get(..*at).unwrap_or_default();
            !before.ends_with(|last: char| last == ':' || last == '_' || last.is_alphanumeric())
        })
        .flat_map(|(at, _)| {
            let rest = code.get(at + prefix.len()..).unwrap_or_default();
            match rest.strip_prefix('{') {
                Some(inner) => in_braces(inner),
                None => vec![first_name(rest)],
            }
        })
        .collect()
}

fn first_name(text: &str) -> String {
    text.chars()
        .take_while(|letter| *letter == '_' || letter.is_alphanumeric())
        .collect()
}

/// Returns the first name of each path within a brace that has just been opened.
fn in_braces(text: &str) -> Vec<String> {
    let mut deep = 0;
    let mut names = Vec::new();
    let mut path = String::new();
    for letter in text.chars() {
        match letter {
            '{' => deep += 1,
            '}' if deep == 0 => break,
            '}' => deep -= 1,
            ',' if deep == 0 => names.push(std::mem::take(&mut path)),
            _ if deep == 0 => path.push(letter),
            _ => {}
        }
    }
    names.push(path);
    names.iter().map(|path| first_name(path.trim())).collect()
}

fn may_use(user: &str, used: &str) -> bool {
    user == used || level(used) < level(user) || TOGETHER.contains(&(user, used))
}

#[test]
fn a_file_uses_its_own_module_and_lower_levels_only() {
    check(&files("src"), |file| {
        let user = module(&file.path);
        let wrong = named(file)
            .into_iter()
            .filter(|used| !may_use(user, used))
            .map(|used| format!("{user} must not use {used}"));
        let unknown = level(user)
            .is_none()
            .then(|| format!("{user} has no level"));
        wrong.chain(unknown).collect()
    });
}

#[test]
fn the_core_is_pure() {
    let mut files = files("crates/longhaul-core/src");
    // The tests of the core read fixtures.
    files.retain(|file| !file.path.contains("/prompts/") && !file.path.contains("/tests/"));
    check(&files, |file| {
        let code = file
            .text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        code.flat_map(|line| IMPURE.iter().map(move |word| (line, word)))
            .filter(|(line, word)| line.contains(**word))
            .map(|(line, word)| format!("uses {word}: {}", line.trim()))
            .collect()
    });
}

/// Crates that the pure core must not depend on: runtimes, networks, logs.
const IMPURE_CRATES: &[&str] = &["tokio", "hyper", "http", "tracing"];

#[test]
fn the_core_depends_on_no_runtime_network_or_log() {
    let core = files("crates/longhaul-core");
    let manifest = core.iter().find(|file| file.path.ends_with("/Cargo.toml"));
    let manifest = &manifest.expect("the core has a manifest").text;
    for line in manifest.lines() {
        let dependency = line.split([' ', '.', '=']).next().unwrap_or_default();
        let family = dependency.split('-').next().unwrap_or_default();
        assert!(!IMPURE_CRATES.contains(&family), "{line}");
    }
}

#[test]
fn paths_are_seen_in_every_way_they_are_written() {
    let seen = |path: &str, text: &str| {
        named(&File {
            path: path.into(),
            text: text.into(),
        })
    };
    assert_eq!(seen("src/store.rs", "use crate::proxy::X;"), ["proxy"]);
    assert_eq!(seen("src/store.rs", "    let x = crate::cli::X;"), ["cli"]);
    assert_eq!(seen("src/store.rs", "use super::server;"), ["server"]);
    assert_eq!(
        seen("src/store/near.rs", "use super::super::config::X;"),
        ["config"]
    );
    assert_eq!(
        seen(
            "src/store.rs",
            "use crate::{\n    proxy::{Proxy, cli},\n    telemetry,\n};"
        ),
        ["proxy", "telemetry"]
    );
    assert!(seen("src/store.rs", "/// As in crate::proxy.").is_empty());
    assert!(seen("src/store/near.rs", "use super::config;").is_empty());
    assert!(!may_use("store", "proxy") && !may_use("store", "upstream"));
    assert!(may_use("proxy", "store") && !may_use("error", "report"));
}
