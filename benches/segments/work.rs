//! Instructions of a request and of a compaction in the last tenth of a hundred windows. Unlike times, counts
//! are stable on a busy machine.
//!
//! One run without counting finds the requests. Then this program runs itself under callgrind for each of them:
//! the child restores the record, sends the requests before, and counts [`counted_send`] alone.

use crate::hundred::{Chained, WINDOW};
use crate::options::Options;
use crate::player::Player;
use crate::requests::Marks;
use crate::sessions::{Failure, Session};
use longhaul_core::policy::record::{CompactionRecord, RecordMatch};
use longhaul_core::policy::{CompactionSettings, Policy, Profile};
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Argument that marks the counted run.
pub(crate) const CHILD: &str = "--counted";
/// Number of requests that the child sends before the counted one. The cache stores messages at the first sight
/// and pages at the second, so the third finds what it finds in the middle of a session.
const BEFORE: usize = 3;

/// A request of the last tenth, with the state that it meets.
struct Met {
    /// Messages of the requests before, and of this one.
    counts: [usize; BEFORE + 1],
    record: Option<RecordMatch>,
    compacted: bool,
}

/// Renders the instructions of both profiles.
pub(crate) fn page(sessions: &[Session], options: &Options) -> Result<String, Failure> {
    let chained = Chained::of(sessions)?;
    let mut text = "## Work in the last tenth\n\n\
        | profile | body, MB | instructions of the median request | for each byte | compactions | of the median compaction | of the slowest | over the median request |\n\
        |---|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for &(name, profile) in &options.profiles {
        let met = last_tenth(&chained, profile)?;
        let compactions = met.iter().filter(|it| it.compacted);
        let mut compactions =
            compactions.map(|it| count(&chained, name, it)).collect::<Result<Vec<u64>, _>>()?;
        compactions.sort_unstable();
        let usual = compactions.get(compactions.len() / 2).ok_or("no compaction")?;
        let slowest = compactions.last().ok_or("no compaction")?;
        let plain: Vec<&Met> = met.iter().filter(|it| !it.compacted).collect();
        let median = plain.get(plain.len() / 2).ok_or("no request")?;
        let [.., messages] = median.counts;
        let bytes = chained.requests.body(messages, Marks::None)?.len() as u64;
        let instructions = count(&chained, name, median)?;
        let tenths = |one: u64, other: u64| {
            let tenths = one * 10 / other.max(1);
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        _ = writeln!(
            text,
            "| `{name}` | {} | {instructions} | {} | {} | {usual} | {slowest} | {} |",
            tenths(bytes, 1_000_000),
            tenths(instructions, bytes),
            compactions.len(),
            tenths(*slowest, instructions),
        );
    }
    Ok(text)
}

/// Returns the policy of a profile at the window of the session.
fn policy(profile: Profile) -> Policy {
    let settings = CompactionSettings { profile, ..CompactionSettings::default() };
    Policy::new(&settings, WINDOW)
}

/// Plays the last tenth. The first request of the process replays what came before.
fn last_tenth(chained: &Chained, profile: Profile) -> Result<Vec<Met>, Failure> {
    let counts = chained.counts();
    let from = counts.len() * 9 / 10;
    let mut player = Player::new(policy(profile), &[]);
    let first = *counts.get(from).ok_or("no request")?;
    player.send(chained.requests.body(first, Marks::None)?.as_bytes())?;
    let mut met = Vec::new();
    let runs = counts.get(from + 1 - BEFORE..).unwrap_or_default();
    for counts in runs.windows(BEFORE + 1) {
        let &[.., count] = counts else { continue };
        let body = chained.requests.body(count, Marks::None)?;
        let record = player.record();
        let played = player.send(body.as_bytes())?;
        met.push(Met { counts: counts.try_into()?, record, compacted: played.compacted });
    }
    Ok(met)
}

/// Counts the instructions of a request in a child process.
fn count(chained: &Chained, profile: &str, met: &Met) -> Result<u64, Failure> {
    let folder = tempfile::tempdir()?;
    for (at, count) in met.counts.into_iter().enumerate() {
        let body = chained.requests.body(count, Marks::None)?;
        fs::write(folder.path().join(at.to_string()), body)?;
    }
    let record = met.record.as_ref().map(|it| (it.prefix_end, &*it.record));
    fs::write(folder.path().join("record"), serde_json::to_vec(&record)?)?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=*counted_send*"])
        .arg(std::env::current_exe()?)
        .args([CHILD, profile])
        .arg(folder.path())
        .output()?;
    let report = String::from_utf8_lossy(&output.stderr);
    let mut lines = report.lines();
    let counted = lines.find_map(|line| line.split_once("Collected :"));
    let counted = counted.ok_or_else(|| format!("callgrind counted nothing:\n{report}"))?;
    Ok(counted.1.trim().parse()?)
}

/// Sends the request of a folder in the child process.
pub(crate) fn in_child(profile: &str, folder: &Path) -> Result<(), Failure> {
    let profile = match profile {
        "auto" => Profile::Auto,
        "frugal" => Profile::Frugal,
        _ => return Err("no such profile".into()),
    };
    let record: Option<(usize, CompactionRecord)> =
        serde_json::from_slice(&fs::read(folder.join("record"))?)?;
    let mut player = Player::new(policy(profile), &[]);
    let record = record.map(|(prefix_end, record)| RecordMatch {
        prefix_end,
        adopted: true,
        record: Arc::new(record),
    });
    for at in 0..BEFORE {
        player.restore(record.clone());
        player.send(&fs::read(folder.join(at.to_string()))?)?;
    }
    player.restore(record);
    let body = fs::read(folder.join(BEFORE.to_string()))?;
    black_box(counted_send(&mut player, &body)?);
    Ok(())
}

#[inline(never)]
fn counted_send(player: &mut Player, body: &[u8]) -> Result<usize, Failure> {
    Ok(player.send(body)?.forwarded.len())
}
