//! Nothing sleeps in a test but what is listed here.

use super::{File, check, sources};

/// Why a test sleeps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Why {
    /// The paused clock moves, and nobody waits.
    Clock,
    /// It plays somebody slow: a peer that drips, an agent that thinks, a store that stalls.
    Conduct,
    /// Between two looks at another process that tells nobody of what is waited for. A bound turns a
    /// hang into a failure.
    Look,
    /// Whatever else there is on the thread goes on meanwhile.
    Others,
}

/// How often each file of the tests sleeps, and why.
const SLEEPS: [(&str, usize, Why); 16] = [
    ("src/proxy/budget/spare.rs", 3, Why::Clock),
    ("src/proxy/watch/tests.rs", 1, Why::Clock),
    ("src/server/opening.rs", 1, Why::Clock),
    ("src/store/tests/leases.rs", 1, Why::Clock),
    ("tests/it/abuse/slow.rs", 1, Why::Clock),
    ("tests/it/faults/endpoint.rs", 1, Why::Conduct),
    ("tests/it/kept/sessions.rs", 1, Why::Others),
    ("tests/it/listener.rs", 1, Why::Clock),
    ("tests/it/load/agents.rs", 2, Why::Conduct),
    ("tests/it/load/drill.rs", 5, Why::Conduct),
    ("tests/it/load/process.rs", 1, Why::Look),
    ("tests/it/load/upstream.rs", 1, Why::Conduct),
    ("tests/it/multiplexed.rs", 1, Why::Clock),
    ("tests/it/program.rs", 2, Why::Look),
    ("tests/it/redis_server.rs", 1, Why::Look),
    ("tests/it/replicas/fleet.rs", 1, Why::Look),
];

/// How often a file sleeps where it is a test.
fn sleeps(file: &File) -> usize {
    let is_test = file.path.starts_with("tests/")
        || file.path.ends_with("/tests.rs")
        || file.path.contains("/tests/");
    let tests = if is_test {
        &file.text
    } else {
        let inline = file.text.split_once("#[cfg(test)]\nmod tests {");
        inline.map_or("", |(_, tests)| tests)
    };
    let calls = tests
        .match_indices(concat!("sleep", "("))
        .filter(|(at, _)| {
            let before = tests.get(..*at).unwrap_or_default();
            !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
        });
    calls.count()
}

#[test]
fn nothing_sleeps_in_a_test_but_what_is_listed() {
    let listed = |path: &str| SLEEPS.iter().find(|(other, _, _)| *other == path);
    check(&sources(), |file| {
        let expect = listed(&file.path).map_or(0, |(_, times, _)| *times);
        let found = sleeps(file);
        let wrong = (found != expect).then(|| format!("sleeps {found} times, listed are {expect}"));
        wrong.into_iter().collect()
    });
}

#[test]
fn every_reason_to_sleep_is_told_to_contributors() {
    let told = include_str!("../../../CONTRIBUTING.md");
    let sources = sources();
    for (path, _, why) in SLEEPS {
        assert!(sources.iter().any(|file| file.path == path), "{path}");
        // With the clock paused nobody waits, which needs no excuse.
        assert!(why == Why::Clock || told.contains(path), "{path}: {why:?}");
    }
}
