//! The load test of `examples/load.rs`, at the size of a test.
//!
//! No request is lost or duplicated, nothing leaks, and SIGTERM drains.

#[path = "load/drill.rs"]
mod drill;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drill::Size;
use drill::tally::{Fate, Got, Tally};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_agents_lose_no_request_and_leak_no_descriptor() {
    let size = Size {
        agents: 200,
        lasting: Duration::from_secs(6),
        reload_every: Duration::from_secs(1),
        has_hostile: true,
        idle: Duration::ZERO,
    };
    let report = drill::play(Path::new(env!("CARGO_BIN_EXE_longhaul")), size).await;
    assert!(report.wrong.is_empty(), "{report:#?}");
    assert!(report.attacks > 0, "{report:#?}");
    let [before, _, end, after] = report.held;
    assert!(end.ticks > before.ticks, "{report:#?}");
    assert!(after.descriptors <= before.descriptors, "{report:#?}");
    // Without a redis-server the report says so, and the store is in memory.
    let has_server = Command::new("redis-server").arg("--version").output().is_ok();
    assert_eq!(report.stalled, has_server);
    for name in ["whole", "left by their clients", "broken off by the upstream", "answered 502"] {
        let (_, count) = report.counts.iter().find(|(it, _)| *it == name).unwrap();
        assert!(*count > 0, "none was {name}: {report:#?}");
    }
}

#[test]
fn tally_detects_lost_duplicated_and_swapped_replies() {
    let whole = 1;
    assert_eq!(Fate::of(whole), Fate::Whole);
    for (seen, got, right) in [
        (1, Some(Got::Whole), true),
        (0, Some(Got::Whole), false),
        (2, Some(Got::Whole), false),
        (1, Some(Got::Broken), false),
        (1, Some(Got::Others), false),
        (1, Some(Got::Nothing), false),
        (0, Some(Got::Nothing), false),
        (1, None, false),
    ] {
        let tally = Tally::default();
        while tally.begin() < whole {}
        (0..seen).for_each(|_| tally.saw(whole));
        if let Some(got) = got {
            tally.got(whole, got);
        }
        let told = tally.wrong().iter().any(|line| line.starts_with(&format!("request {whole},")));
        assert_eq!(told, !right, "{seen}, {got:?}");
    }
}
