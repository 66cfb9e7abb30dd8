//! Lists the test files that sleep or measure time, with the reason; no others may.

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

/// A file, and the reason for its calls.
type Listed = (&'static str, Why);

/// Files with sleeps.
const SLEEPS: &[Listed] = &[
    ("src/body/budget/spare_buffer.rs", Why::Clock),
    ("src/exchange/reply_gate/tests.rs", Why::Clock),
    ("src/server/idle_memory.rs", Why::Clock),
    ("src/store/tests/leases.rs", Why::Clock),
    ("src/store/tests/scripted.rs", Why::Clock),
    ("tests/it/abuse/slow.rs", Why::Clock),
    ("tests/it/admin/page.rs", Why::Look),
    ("tests/it/fair_share.rs", Why::Clock),
    ("tests/it/faults/endpoint.rs", Why::Conduct),
    ("tests/it/listener.rs", Why::Clock),
    ("tests/it/load/agents.rs", Why::Conduct),
    ("tests/it/load/drill.rs", Why::Conduct),
    ("tests/it/load/hostile.rs", Why::Conduct),
    ("tests/it/load/process.rs", Why::Look),
    ("tests/it/load/upstream.rs", Why::Conduct),
    ("tests/it/logins/quota.rs", Why::Others),
    ("tests/it/multiplexed.rs", Why::Clock),
    ("tests/it/program.rs", Why::Look),
    ("tests/it/provider.rs", Why::Others),
    ("tests/it/redis_server.rs", Why::Look),
    ("tests/it/replicas/fleet.rs", Why::Look),
    ("tests/it/stored_records/running_jobs.rs", Why::Others),
    ("tests/it/summaries/late.rs", Why::Clock),
];

/// Files with timeouts and queries of elapsed time.
const TIMES: &[Listed] = &[
    ("src/chat/summarise/tests.rs", Why::Clock),
    ("src/cli/mcp/http.rs", Why::Clock),
    ("src/exchange/reply_gate/tests.rs", Why::Clock),
    ("src/server/admin_listener.rs", Why::Clock),
    ("src/store/redis/tests.rs", Why::Limit),
    ("src/store/redis/tests/failover.rs", Why::Limit),
    ("src/store/redis/tests/hostile.rs", Why::Limit),
    ("src/store/tests/leases.rs", Why::Clock),
    ("src/store/tests/tiers.rs", Why::Clock),
    ("src/upstream/tests.rs", Why::Limit),
    ("src/upstream/tls.rs", Why::Clock),
    ("tests/it/abuse/http2.rs", Why::Clock),
    ("tests/it/admin/page.rs", Why::Limit),
    ("tests/it/faults/client.rs", Why::Clock),
    ("tests/it/listener.rs", Why::Clock),
    ("tests/it/load/agents.rs", Why::Limit),
    ("tests/it/load/drill.rs", Why::Limit),
    ("tests/it/load/hostile.rs", Why::Limit),
    ("tests/it/multiplexed.rs", Why::Limit),
    ("tests/it/multiplexed.rs", Why::Clock),
    ("tests/it/passage.rs", Why::Clock),
    ("tests/it/program.rs", Why::Limit),
    ("tests/it/redis_server.rs", Why::Limit),
    ("tests/it/replicas/fleet.rs", Why::Limit),
    ("tests/it/switches.rs", Why::Timed),
    ("tests/it/time_limit.rs", Why::Limit),
    ("tests/it/transparency/exchange.rs", Why::Limit),
    ("tests/it/transparency/multiplexed.rs", Why::Limit),
    ("tests/it/transparency/peer.rs", Why::Limit),
    ("tests/it/transparency/peer.rs", Why::Timed),
];

/// Whether the test code of a file calls one of these functions.
fn calls(file: &File, names: &[&str]) -> bool {
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
        let (before, after) = (&tests[..at], &tests[at + name.len()..]);
        let begins = !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        begins && after.starts_with('(')
    };
    names.iter().any(|name| {
        let mut named = tests.match_indices(*name);
        named.any(|(at, name)| is_call(at, name))
    })
}

fn check_listed(names: &[&str], listed: &[Listed]) {
    check(&sources(), |file| {
        let is_listed = listed.iter().any(|(path, _)| *path == file.path);
        match (calls(file, names), is_listed) {
            (true, false) => vec![format!("calls one of {names:?} and is not listed")],
            (false, true) => vec![format!("is listed and calls none of {names:?}")],
            (true, true) | (false, false) => Vec::new(),
        }
    });
}

#[test]
fn only_the_listed_tests_sleep() {
    check_listed(&["sleep"], SLEEPS);
}

#[test]
fn only_the_listed_tests_measure_time() {
    check_listed(&["elapsed", "timeout"], TIMES);
}

#[test]
fn every_listed_file_exists() {
    let sources = sources();
    for (path, why) in SLEEPS.iter().chain(TIMES) {
        let exists = sources.iter().any(|file| file.path == *path);
        assert!(exists, "{path}, listed for {why:?}");
    }
}
