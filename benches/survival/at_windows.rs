//! Identifiers that survive in the requests that longhaul forwards at given windows.

use crate::forwarded::forwarded;
use crate::history::{REPLIES, Wanted, messages, replies_from};
use crate::sessions::{Failure, Session};
use crate::tally::{Tally, percent};
use crate::workers;
use longhaul_core::dialect::Dialect;
use longhaul_core::policy::{CompactionSettings, Policy, Profile, ThresholdSetting};
use longhaul_core::units::tokens::Tokens;
use std::fmt::Write as _;

/// A way to compact, at a window.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) profile: Profile,
    /// Whether old results are cleared, or digests alone replace history.
    pub(crate) prunes: bool,
    pub(crate) window: u32,
}

impl Case {
    pub(crate) const fn new(name: &'static str, profile: Profile, window: u32) -> Self {
        Self {
            name,
            profile,
            prunes: true,
            window,
        }
    }

    const fn auto(window: u32) -> Self {
        Self::new("auto", Profile::Auto, window)
    }

    const fn frugal(window: u32) -> Self {
        Self::new("frugal", Profile::Frugal, window)
    }

    /// `auto` without clearing: the least that every profile is to keep at an equal window.
    const fn digests(window: u32) -> Self {
        Self {
            prunes: false,
            ..Self::new("digests alone", Profile::Auto, window)
        }
    }
}

/// Profiles and windows of Chat Completions.
#[allow(dead_code, reason = "another benchmark measures some")]
pub(crate) const CASES: [Case; 8] = [
    Case::auto(32_000),
    Case::auto(64_000),
    Case::auto(200_000),
    Case::frugal(32_000),
    Case::frugal(200_000),
    Case::digests(32_000),
    Case::digests(64_000),
    Case::digests(200_000),
];

/// Profiles and windows of the Messages API: a small one, and that of the older models.
#[allow(dead_code, reason = "another benchmark measures some")]
pub(crate) const MESSAGES_CASES: [Case; 6] = [
    Case::auto(64_000),
    Case::auto(200_000),
    Case::frugal(64_000),
    Case::frugal(200_000),
    Case::digests(64_000),
    Case::digests(200_000),
];

/// Profiles and windows of the Responses API: the largest is that of Codex's models.
#[allow(dead_code, reason = "another benchmark measures some")]
pub(crate) const RESPONSES_CASES: [Case; 9] = [
    Case::auto(64_000),
    Case::auto(128_000),
    Case::auto(272_000),
    Case::frugal(64_000),
    Case::frugal(128_000),
    Case::frugal(272_000),
    Case::digests(64_000),
    Case::digests(128_000),
    Case::digests(272_000),
];

/// Requests of a session that are measured, evenly spread.
const REQUESTS: usize = 40;

/// Sums over every measured request, and over those that longhaul changed.
#[derive(Clone, Copy, Default)]
struct Sums {
    every: Tally,
    changed: Tally,
}

/// Renders two rows for each case: every request, and those that longhaul changed. `hard` is the hard
/// threshold, if not the default.
pub(crate) fn page(
    sessions: &[Session],
    cases: &[Case],
    hard: Option<ThresholdSetting>,
) -> Result<String, Failure> {
    let mut text = "| | all | far, only in results | requests | tokens each | wanted |\n\
                    |---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for case in cases {
        let settings = CompactionSettings {
            profile: case.profile,
            prune: case.prunes,
            hard: hard.unwrap_or_else(|| CompactionSettings::default().hard),
            ..CompactionSettings::default()
        };
        let policy = Policy::new(&settings, Tokens::new(case.window));
        let title = format!("{} at {}", case.name, case.window);
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
