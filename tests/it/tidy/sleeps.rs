//! Lists every sleep and every time measurement in tests; no others are permitted.

use super::{File, check, sources};

/// The reason for a sleep or a time measurement in a test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Why {
    /// A limit that turns a hang into a failure; the exact duration is irrelevant.
    Limit,
    /// The clock is paused, so the test does not wait.
    Clock,
    /// The test plays a slow party: a dripping peer, a thinking agent, a stalled store.
    Conduct,
    /// Time between two polls of another process that sends no notification.
    Look,
    /// Lets the other tasks on the thread run meanwhile.
    Others,
    /// The duration itself is under test, on a real clock.
    Timed,
}

/// A file, the number of its calls, and the reason for them.
type Listed = (&'static str, usize, Why);

/// Number of sleeps in each test file.
const SLEEPS: [Listed; 21] = [
    ("src/body/budget/spare_buffer.rs", 3, Why::Clock),
    ("src/exchange/reply_gate/tests.rs", 1, Why::Clock),
    ("src/server/idle_memory.rs", 1, Why::Clock),
    ("src/store/tests/leases.rs", 1, Why::Clock),
    ("src/store/tests/scripted.rs", 1, Why::Clock),
    ("tests/it/abuse/slow.rs", 2, Why::Clock),
    ("tests/it/admin/page.rs", 1, Why::Look),
    ("tests/it/fair_share.rs", 1, Why::Clock),
    ("tests/it/faults/endpoint.rs", 1, Why::Conduct),
    ("tests/it/listener.rs", 1, Why::Clock),
    ("tests/it/load/agents.rs", 2, Why::Conduct),
    ("tests/it/load/drill.rs", 6, Why::Conduct),
    ("tests/it/load/hostile.rs", 1, Why::Conduct),
    ("tests/it/load/process.rs", 1, Why::Look),
    ("tests/it/load/upstream.rs", 1, Why::Conduct),
    ("tests/it/multiplexed.rs", 1, Why::Clock),
    ("tests/it/program.rs", 2, Why::Look),
    ("tests/it/redis_server.rs", 1, Why::Look),
    ("tests/it/replicas/fleet.rs", 1, Why::Look),
    ("tests/it/stored_records/running_jobs.rs", 1, Why::Others),
    ("tests/it/summaries/late.rs", 1, Why::Clock),
];

/// Number of timeouts and elapsed-time queries in each test file.
const TIMES: [Listed; 28] = [
    ("src/chat/summarise/tests.rs", 5, Why::Clock),
    ("src/exchange/reply_gate/tests.rs", 1, Why::Clock),
    ("src/server/admin_listener.rs", 3, Why::Clock),
    ("src/store/redis/tests.rs", 3, Why::Limit),
    ("src/store/redis/tests/failover.rs", 1, Why::Limit),
    ("src/store/tests/leases.rs", 3, Why::Clock),
    ("src/store/tests/tiers.rs", 3, Why::Clock),
    ("src/upstream/tests.rs", 1, Why::Limit),
    ("src/upstream/tls.rs", 1, Why::Clock),
    ("tests/it/abuse/http2.rs", 1, Why::Clock),
    ("tests/it/admin/page.rs", 1, Why::Limit),
    ("tests/it/faults/client.rs", 1, Why::Clock),
    ("tests/it/listener.rs", 1, Why::Clock),
    ("tests/it/load/agents.rs", 1, Why::Limit),
    ("tests/it/load/drill.rs", 2, Why::Limit),
    ("tests/it/load/hostile.rs", 1, Why::Limit),
    ("tests/it/multiplexed.rs", 1, Why::Limit),
    ("tests/it/multiplexed.rs", 1, Why::Clock),
    ("tests/it/passage.rs", 3, Why::Clock),
    ("tests/it/program.rs", 1, Why::Limit),
    ("tests/it/redis_server.rs", 1, Why::Limit),
    ("tests/it/replicas/fleet.rs", 1, Why::Limit),
    ("tests/it/switches.rs", 1, Why::Timed),
    ("tests/it/time_limit.rs", 2, Why::Limit),
    ("tests/it/transparency/exchange.rs", 4, Why::Limit),
    ("tests/it/transparency/multiplexed.rs", 1, Why::Limit),
    ("tests/it/transparency/peer.rs", 3, Why::Limit),
    ("tests/it/transparency/peer.rs", 1, Why::Timed),
];

/// Counts the calls of these functions in the test code of a file.
fn calls(file: &File, names: &[&str]) -> usize {
    let is_test = file.path.starts_with("tests/")
        || file.path.ends_with("/tests.rs")
        || file.path.contains("/tests/");
    let tests = if is_test {
        &file.text
    } else {
        let inline = file.text.split_once("#[cfg(test)]\nmod tests {");
        inline.map_or("", |(_, tests)| tests)
    };
    let is_call = |at: usize, name: &str| {
        let (before, behind) = (&tests[..at], &tests[at + name.len()..]);
        let begins = !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        begins && behind.starts_with('(')
    };
    let of = |name: &&str| {
        let named = tests.match_indices(*name);
        named.filter(|(at, name)| is_call(*at, name)).count()
    };
    names.iter().map(of).sum()
}

fn check_listed(names: &[&str], listed: &[Listed]) {
    check(&sources(), |file| {
        let of_file = listed.iter().filter(|(path, _, _)| *path == file.path);
        let expect: usize = of_file.map(|(_, times, _)| times).sum();
        let found = calls(file, names);
        let wrong = format!("{names:?} are called {found} times, listed are {expect}");
        (found != expect).then_some(wrong).into_iter().collect()
    });
}

#[test]
fn tests_contain_only_the_listed_sleeps() {
    check_listed(&["sleep"], &SLEEPS);
}

#[test]
fn tests_contain_only_the_listed_time_measurements() {
    check_listed(&["elapsed", "timeout"], &TIMES);
}

#[test]
fn contributing_md_explains_every_listed_sleep_and_time_measurement() {
    let told = include_str!("../../../CONTRIBUTING.md");
    let sources = sources();
    for (path, _, why) in SLEEPS.into_iter().chain(TIMES) {
        assert!(sources.iter().any(|file| file.path == path), "{path}");
        let needs_no_excuse = matches!(why, Why::Limit | Why::Clock);
        assert!(needs_no_excuse || told.contains(path), "{path}: {why:?}");
    }
}
