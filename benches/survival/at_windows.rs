//! Identifiers that survive in the requests that longhaul forwards at given windows.

use crate::forwarded::forwarded;
use crate::history::{REPLIES, Wanted, messages, replies_from};
use crate::sessions::{Failure, Session};
use crate::tally::{Tally, percent};
use crate::workers;
use longhaul_core::dialect::Dialect;
use longhaul_core::policy::{CompactionSettings, Policy, Profile};
use longhaul_core::units::tokens::Tokens;
use std::fmt::Write as _;

/// A profile, with its name, and a window.
pub(crate) type Case = (&'static str, Profile, u32);

/// All profiles and windows.
#[allow(dead_code, reason = "another benchmark measures some")]
pub(crate) const CASES: [Case; 5] = [
    ("auto", Profile::Auto, 32_000),
    ("auto", Profile::Auto, 64_000),
    ("auto", Profile::Auto, 200_000),
    ("frugal", Profile::Frugal, 32_000),
    ("frugal", Profile::Frugal, 200_000),
];

/// All profiles and windows of the Messages API: a small one, and that of the older models.
#[allow(dead_code, reason = "another benchmark measures some")]
pub(crate) const MESSAGES_CASES: [Case; 4] = [
    ("auto", Profile::Auto, 64_000),
    ("auto", Profile::Auto, 200_000),
    ("frugal", Profile::Frugal, 64_000),
    ("frugal", Profile::Frugal, 200_000),
];

/// All profiles and windows of the Responses API: the largest is that of Codex's models.
#[allow(dead_code, reason = "another benchmark measures some")]
pub(crate) const RESPONSES_CASES: [Case; 6] = [
    ("auto", Profile::Auto, 64_000),
    ("auto", Profile::Auto, 128_000),
    ("auto", Profile::Auto, 272_000),
    ("frugal", Profile::Frugal, 64_000),
    ("frugal", Profile::Frugal, 128_000),
    ("frugal", Profile::Frugal, 272_000),
];

/// Requests of a session that are measured, evenly spread.
const REQUESTS: usize = 40;

/// Sums over every measured request, and over those that longhaul changed.
#[derive(Clone, Copy, Default)]
struct Sums {
    every: Tally,
    changed: Tally,
}

/// Renders two rows for each case: every request, and those that longhaul changed.
pub(crate) fn page(sessions: &[Session], cases: &[Case]) -> Result<String, Failure> {
    let mut text = "| | all | far, only in results | requests | tokens each | wanted |\n\
                    |---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for &(name, profile, window) in cases {
        let settings = CompactionSettings {
            profile,
            ..CompactionSettings::default()
        };
        let policy = Policy::new(&settings, Tokens::new(window));
        let title = format!("{name} at {window}");
        let all = workers::each(&title, sessions, |session| of_session(session, &policy))?;
        let mut sums = Sums::default();
        for of_session in all {
            sums.every += of_session.every;
            sums.changed += of_session.changed;
        }
        for (what, tally) in [("every request", sums.every), ("changed", sums.changed)] {
            _ = writeln!(
                text,
                "| {title}, {what} | {} | {} | {} | {} | {} / {} |",
                percent(tally.all),
                percent(tally.far),
                tally.cuts,
                tally.tokens / tally.cuts.max(1),
                tally.all.wanted(),
                tally.far.wanted(),
            );
        }
    }
    Ok(text)
}

fn of_session(session: &Session, policy: &Policy) -> Result<Sums, Failure> {
    let all = messages(&session.body)?;
    let requests: Vec<_> = session.replay.requests().collect();
    let stride = requests.len().div_ceil(REQUESTS).max(1);
    let mut sums = Sums::default();
    for request in requests.iter().skip(stride / 2).step_by(stride) {
        let cut = request.messages();
        if replies_from(&all, cut) < REPLIES {
            continue;
        }
        let body = request.body();
        let conversation =
            Dialect::read_any(&body).map_err(|why| format!("a body was not read: {why:?}"))?;
        let wanted = Wanted::of(&all, cut);
        if let Some(messages) = forwarded(&conversation, policy)? {
            let tally = Tally::of(&wanted, &messages);
            sums.every += tally;
            sums.changed += tally;
        } else {
            let whole = all.get(..cut).unwrap_or_default();
            sums.every += Tally::of(&wanted, whole);
        }
    }
    Ok(sums)
}
