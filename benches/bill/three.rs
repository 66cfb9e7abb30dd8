//! A session of three windows of 32,000 tokens: the cost of one long task, and whether early facts
//! survive to its end.

use crate::bill::{Bill, extending};
use crate::goal::{Goal, HEADING};
use crate::goals::whole;
use crate::options::Options;
use crate::play::play;
use crate::prices::FREE_WRITES;
use crate::sessions::Failure;
use crate::table::{percent, share};
use crate::{Recorded, setup};
use longhaul_mock_model::{PlantedFact, SessionRecording};
use std::fmt::Write as _;

const WINDOW: u64 = 32_000;

/// Aims for a session, as recorded or with planted facts.
struct Aims {
    profile: &'static str,
    /// Ratio of the cost to the cost without a proxy, in ten-thousandths.
    cost: u64,
    changes: u64,
    /// Cached share, in ten-thousandths.
    cached: Option<u64>,
    facts: bool,
}

const AIMS: [Aims; 3] = [
    Aims { profile: "auto", cost: 5_000, changes: 5, cached: Some(8_400), facts: false },
    Aims { profile: "auto", cost: 5_500, changes: 7, cached: None, facts: true },
    Aims { profile: "frugal", cost: 4_500, changes: 8, cached: None, facts: true },
];

/// Renders the report page.
pub(crate) fn page(options: &Options, recorded: &[Recorded]) -> Result<String, Failure> {
    let Some(chosen) = chosen(recorded)? else {
        return Err("no session has a place for each of the facts".into());
    };
    let name = &chosen.session.name;
    let mut text = format!("## {name} at {WINDOW}\n\n{HEADING}\n");
    let (planted, facts) = chosen.session.replay.planted(&PlantedFact::one_each())?;
    for aims in AIMS {
        let replay = if aims.facts { &planted } else { &chosen.session.replay };
        text.push_str(&lines(options, replay, &facts, &aims)?);
    }
    Ok(text)
}

/// Chooses, among the sessions with a place for every fact, the one whose total length is nearest
/// to three windows.
fn chosen(recorded: &[Recorded]) -> Result<Option<&Recorded>, Failure> {
    let mut nearest: Option<(u64, &Recorded)> = None;
    for one in recorded {
        let (_, facts) = one.session.replay.planted(&PlantedFact::one_each())?;
        let whole = one.wholes.last().copied().unwrap_or(0);
        let far = whole.abs_diff(3 * WINDOW);
        if facts.len() == PlantedFact::one_each().len()
            && nearest.is_none_or(|(least, _)| far < least)
        {
            nearest = Some((far, one));
        }
    }
    Ok(nearest.map(|(_, one)| one))
}

fn lines(
    options: &Options,
    replay: &SessionRecording,
    facts: &[PlantedFact],
    aims: &Aims,
) -> Result<String, Failure> {
    let requests = replay.requests();
    let wholes = requests.map(|request| options.density.request_tokens(&request.body()));
    let wholes: Vec<u64> = wholes.map(Option::unwrap_or_default).collect();
    let played = play(replay, &setup(options, aims.profile, WINDOW))?;
    let bill = Bill::of(&played, &extending(&wholes), 0);
    let planted = if aims.facts { ", facts planted" } else { "" };
    let name = format!("`{}`{planted}", aims.profile);
    let mut text = String::new();
    let mut line = |goal: Goal, what: &str, found: u64, shown: fn(u64) -> String| {
        _ = writeln!(text, "{}", goal.line(&format!("{name}: {what}"), found, shown));
    };
    let cost = bill.ratio(FREE_WRITES);
    line(Goal::AtMost(aims.cost), "cost at 1 / 0.1", cost, share);
    line(Goal::AtMost(aims.changes), "prefix changes", bill.changes as u64, whole);
    if let Some(aim) = aims.cached {
        line(Goal::AtLeast(aim), "cached share", bill.cached(), percent);
    }
    line(Goal::AtMost(0), "calls for summaries", bill.summaries as u64, whole);
    let unanswered = bill.requests - bill.answered;
    line(Goal::AtMost(0), "requests without an answer", unanswered as u64, whole);
    if aims.facts {
        let stands = |fact: &&PlantedFact| {
            let token = fact.token.as_bytes();
            played.last.windows(token.len()).any(|bytes| bytes == token)
        };
        let kept = facts.iter().filter(stands).count() as u64;
        line(Goal::AtLeast(facts.len() as u64), "facts in the last request", kept, whole);
    }
    Ok(text)
}
