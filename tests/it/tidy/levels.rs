//! The levels of the code: a file uses only its own room and lower levels. A room is a module at the
//! root of a crate or of a folder with levels of its own, with the files in its folder.
//!
//! Paths are read as text: `crate::x`, chains of `super::`, and the braces after either. The house
//! style names modules of the crate in `use` lines, so the search finds every path without a
//! parser.

mod circles;

use super::{File, check, files, has_ending};

/// The rooms of a crate or of a module, by level.
struct Levels {
    /// Folder with the sources of the rooms.
    root: &'static str,
    /// The rooms, from the lowest level to the highest. Rooms on one level do not use each other.
    rooms: &'static [&'static [&'static str]],
    /// Pairs on one level that may use each other.
    together: &'static [(&'static str, &'static str)],
}

/// The proxy and the program. Metrics have a counter per fault, and each fault has a label.
///
/// The mock model is a crate of its own: an upstream must not agree with the proxy by construction.
const PROGRAM: Levels = Levels {
    root: "src/",
    rooms: &[
        &["callers", "cores", "error", "limits", "metrics", "models", "wall_clock"],
        &["body", "config", "costs", "report", "traces"],
        &["explanation", "upstream"],
        &["learned", "summaries", "telemetry"],
        &["dashboard", "store"],
        &["request"],
        &["proxy_state"],
        &["exchange"],
        &["chat", "recall"],
        &["admin", "proxy"],
        &["server"],
        &["cli", "fuzzing"],
        &["lib", "main"],
    ],
    together: &[("error", "metrics"), ("metrics", "error")],
};

/// The steps that serve a chat. A step uses what the earlier ones returned.
const CHAT: Levels = Levels {
    root: "src/chat/",
    rooms: &[
        &["context", "refusal"],
        &["attempt", "refutation"],
        &["keep", "notices", "provider", "recall", "rewrite", "unanswered_call"],
        &["learn"],
        &["adopt", "explanation", "judge", "output_limit", "second_attempt", "summarise"],
        &["media", "prepare", "recovery"],
        &["plan", "retry"],
        &["count", "settle"],
        &["explicit_compaction"],
        &["gateway"],
    ],
    together: &[],
};

/// The pure core.
const CORE: Levels = Levels {
    root: "crates/longhaul-core/src/",
    rooms: &[
        &["collections", "json", "sse"],
        &["units"],
        &["clients", "text", "user_words"],
        &["recall"],
        &["conversation", "dialect"],
        &["identifiers"],
        &["overflow", "prefix", "pruning"],
        &["policy"],
        &["summary", "window"],
        &["planning"],
        &["cost"],
        &["lib"],
    ],
    // A conversation carries its dialect, which reads and writes conversations.
    together: &[("conversation", "dialect"), ("dialect", "conversation")],
};

/// The surroundings of the proxy.
const LAB: Levels = Levels {
    root: "crates/longhaul-lab/src/",
    rooms: &[
        &["error", "evaluation", "progress", "proxy"],
        &["client_logs", "command", "recorded_session", "session_runner"],
        &["play"],
        &["demo", "eval", "replay"],
        &["lib"],
    ],
    together: &[],
};

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

impl Levels {
    fn level(&self, room: &str) -> Option<usize> {
        self.rooms.iter().position(|level| level.contains(&room))
    }

    /// Returns the room that a file belongs to.
    fn room<'a>(&self, path: &'a str) -> &'a str {
        let path = path.strip_prefix(self.root).unwrap_or(path);
        let first = path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// Returns the rooms that a file names, outside its tests.
    fn named(&self, file: &File) -> Vec<String> {
        let code: String = product_lines(&file.text).collect();
        let path = file.path.strip_prefix(self.root).unwrap_or(&file.path);
        // The number of modules between the file and the root.
        let depth = path.matches('/').count() + 1;
        let (_, folder) = self.root.split_once("src/").unwrap_or_default();
        let mut found = after(&code, &format!("crate::{}", folder.replace('/', "::")));
        found.extend(after(&code, &"super::".repeat(depth)));
        found.retain(|name| self.level(name).is_some());
        found.sort();
        found.dedup();
        found
    }

    fn may_use(&self, user: &str, used: &str) -> bool {
        user == used || self.level(used) < self.level(user) || self.together.contains(&(user, used))
    }

    /// Returns the violations of a file.
    fn violations(&self, file: &File) -> Vec<String> {
        let user = self.room(&file.path);
        let wrong = self
            .named(file)
            .into_iter()
            .filter(|used| !self.may_use(user, used))
            .map(|used| format!("{user} must not use {used}"));
        let unknown = self.level(user).is_none().then(|| format!("{user} has no level"));
        wrong.chain(unknown).collect()
    }

    /// Checks all files but those of tests, which may use everything.
    fn check(&self) {
        let mut files = files(self.root.trim_end_matches('/'));
        files.retain(is_product);
        check(&files, |file| self.violations(file));
    }
}

/// Whether a file is source of a product, not of tests.
fn is_product(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let is_test = file.path.contains("/tests/") || name == "tests.rs";
    has_ending(&file.path, "rs") && !is_test && name != "test_support.rs"
}

/// Returns the lines of code of a file, up to its tests.
fn product_lines(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split_once("#[cfg(test)]\nmod tests {");
    let code = code.map_or(text, |(code, _)| code);
    code.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("//"))
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
    text.chars().take_while(|letter| *letter == '_' || letter.is_alphanumeric()).collect()
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

#[test]
fn files_use_only_their_own_module_and_lower_levels() {
    PROGRAM.check();
    CHAT.check();
    CORE.check();
    LAB.check();
}

#[test]
fn the_core_is_pure() {
    let mut files = files("crates/longhaul-core/src");
    // The tests of the core read fixtures.
    files.retain(|file| !file.path.contains("/prompts/") && !file.path.contains("/tests/"));
    check(&files, |file| {
        let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
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

fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}

#[test]
fn finds_module_paths_in_every_notation() {
    let seen = |path: &str, text: &str| PROGRAM.named(&file(path, text));
    assert_eq!(seen("src/store.rs", "use crate::proxy::X;"), ["proxy"]);
    assert_eq!(seen("src/store.rs", "    let x = crate::cli::X;"), ["cli"]);
    assert_eq!(seen("src/store.rs", "use super::server;"), ["server"]);
    assert_eq!(seen("src/store/near.rs", "use super::super::config::X;"), ["config"]);
    assert_eq!(
        seen("src/store.rs", "use crate::{\n    proxy::{Proxy, cli},\n    telemetry,\n};"),
        ["proxy", "telemetry"]
    );
    assert!(seen("src/store.rs", "/// As in crate::proxy.").is_empty());
    assert!(seen("src/store/near.rs", "use super::config;").is_empty());
    let in_tests = "#[cfg(test)]\nmod tests {\n    use crate::proxy::X;\n}";
    assert!(seen("src/store.rs", in_tests).is_empty());
}

#[test]
fn upward_and_sideways_uses_and_unlevelled_modules_are_violations() {
    let wrong = |levels: &Levels, path: &str, text: &str| levels.violations(&file(path, text));
    for (path, text, expect) in [
        ("src/store.rs", "use crate::proxy::X;", "store must not use proxy"),
        ("src/chat/plan.rs", "use super::super::proxy::X;", "chat must not use proxy"),
        ("src/body.rs", "use crate::config::X;", "body must not use config"),
        ("src/attic.rs", "", "attic has no level"),
    ] {
        assert_eq!(wrong(&PROGRAM, path, text), [expect], "{path}");
    }
    for (path, text, expect) in [
        ("src/chat/attempt.rs", "use crate::chat::retry::X;", "attempt must not use retry"),
        (
            "src/chat/learn/window.rs",
            "use crate::chat::{notices, plan};",
            "learn must not use plan",
        ),
        ("src/chat/attic.rs", "", "attic has no level"),
    ] {
        assert_eq!(wrong(&CHAT, path, text), [expect], "{path}");
    }
    let path = "crates/longhaul-core/src/conversation/images.rs";
    let expect = ["conversation must not use identifiers"];
    assert_eq!(wrong(&CORE, path, "use crate::identifiers;"), expect);
    for (path, text) in [
        ("src/chat.rs", "use crate::store::X;"),
        ("src/chat.rs", "use crate::chat::X;"),
        ("src/error.rs", "use crate::metrics::X;"),
    ] {
        assert!(wrong(&PROGRAM, path, text).is_empty(), "{path}");
    }
}
