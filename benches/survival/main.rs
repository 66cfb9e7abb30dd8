//! Measures how much of a compacted history survives: the share of identifiers used by the agent's
//! next replies that are still present.
//!
//! `cargo bench --bench survival`. Each recorded session is cut at up to twenty points. The history
//! before a cut is compacted by longhaul without a model and by simpler methods, each to an equal
//! number of tokens. Of the identifiers that the next ten replies take from that history, the
//! benchmark counts those that survive. [`identifiers`] defines an identifier.
//!
//! With `--windows`, longhaul alone is measured, as it forwards the requests at given windows, with
//! `--hard=PERCENT` or `--hard=TOKENS` at another hard threshold.
//! `--responses` and `--messages` take the sessions of the other APIs, at windows alone.

mod at_windows;
mod baselines;
mod compaction;
mod forwarded;
#[path = "../bill/goal.rs"]
#[allow(dead_code, reason = "nothing here is to stay below an aim")]
mod goal;
mod goals;
mod history;
mod identifiers;
mod other_apis;
#[path = "../bill/sessions.rs"]
mod sessions;
mod table;
mod tally;
#[path = "../bill/workers.rs"]
mod workers;

use baselines::{Baseline, size};
use history::{Message, REPLIES, Wanted, messages, replies_from};
use longhaul_core::policy::{CompactionSettings, Profile, ThresholdSetting};
use longhaul_core::units::tokens::Tokens;
use sessions::{Api, Failure, Part, Session, sessions};
use tally::Tally;

/// Maximum cuts per session.
const CUTS: usize = 20;
/// Minimum history, in tokens; a shorter one fits into a small window and needs no compaction.
const LEAST: usize = 32_000;

/// Size limit of a compacted history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Budget {
    /// Percentage of the original size.
    Percent(usize),
    /// Absolute number of tokens, for longer histories only.
    Tokens(usize),
}

impl Budget {
    pub(crate) const ALL: [Self; 3] = [Self::Percent(50), Self::Percent(25), Self::Tokens(32_000)];

    /// Label in the tables.
    fn title(self) -> String {
        match self {
            Self::Percent(percent) => format!("{percent}% of the tokens"),
            Self::Tokens(tokens) => format!("{tokens} tokens"),
        }
    }

    fn of(self, whole: usize) -> Option<usize> {
        match self {
            Self::Percent(percent) => Some(whole * percent / 100),
            Self::Tokens(tokens) => (whole > tokens).then_some(tokens),
        }
    }
}

/// A compaction method.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Method {
    Baseline(Baseline),
    /// longhaul with these settings, under a label.
    Ours(&'static str, CompactionSettings),
}

impl Method {
    fn all() -> Vec<Self> {
        let ours = CompactionSettings::default();
        let digest = CompactionSettings {
            prune: false,
            ..ours.clone()
        };
        let frugal = CompactionSettings {
            profile: Profile::Frugal,
            ..ours.clone()
        };
        let mut all: Vec<Self> = Baseline::ALL.into_iter().map(Self::Baseline).collect();
        all.extend([
            Self::Ours("longhaul, digest and index only", digest),
            Self::Ours("longhaul, `auto`", ours),
            Self::Ours("longhaul, `frugal`", frugal),
        ]);
        all
    }

    /// Compacts `history` to at most `budget` tokens; `body` is its request. Returns `None` if the
    /// method cannot reach the budget.
    fn apply(
        &self,
        history: &[Message],
        body: &[u8],
        budget: usize,
    ) -> Result<Option<Vec<Message>>, Failure> {
        match self {
            Self::Baseline(baseline) => Ok(Some(baseline.apply(history, budget))),
            Self::Ours(_, wishes) => compaction::compacted(body, budget, wishes),
        }
    }
}

fn main() -> Result<(), Failure> {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let named = [("--build", "build"), ("--judge", "judge")];
    let part = named.into_iter().find(|(flag, _)| has(flag));
    let part = part.and_then(|(_, name)| Part::from_name(name));
    let part = part.unwrap_or(Part::All);
    let api = [
        ("--messages", Api::Messages),
        ("--responses", Api::Responses),
    ];
    let api = api.into_iter().find(|(flag, _)| has(flag));
    let api = api.map_or(Api::ChatCompletions, |(_, api)| api);
    let mut sessions = sessions(api, &wanted, part)?;
    sessions.sort_by_key(|session| std::cmp::Reverse(session.body.len()));
    let cases = match api {
        Api::ChatCompletions if !has("--windows") => None,
        Api::ChatCompletions => Some(&at_windows::CASES[..]),
        Api::Messages => Some(&at_windows::MESSAGES_CASES[..]),
        Api::Responses => Some(&at_windows::RESPONSES_CASES[..]),
    };
    if let Some(cases) = cases {
        let hard =
            std::env::args().find_map(|argument| hard_threshold(argument.strip_prefix("--hard=")?));
        println!("{}", at_windows::page(&sessions, cases, hard)?);
        return Ok(());
    }
    let methods = Method::all();
    let tallies = workers::each("cutting", &sessions, |session| tallies(session, &methods))?;
    let mut sums = vec![[Tally::default(); Budget::ALL.len()]; methods.len()];
    for tallies in tallies {
        for (sum, tally) in sums.iter_mut().flatten().zip(tallies.iter().flatten()) {
            *sum += *tally;
        }
    }
    println!("{}", table::render(&methods, &sums));
    for (method, tallies) in methods.iter().zip(&sums) {
        if matches!(method, Method::Ours(_, wishes) if wishes.profile == Profile::Auto) {
            println!("{}", goals::render(table::name(method), tallies));
        }
    }
    Ok(())
}

/// Returns a hard threshold: up to 100, a percentage, else a number of tokens.
fn hard_threshold(text: &str) -> Option<ThresholdSetting> {
    let number = text.parse().ok()?;
    Some(if number <= 100 {
        ThresholdSetting::Percent(number)
    } else {
        ThresholdSetting::Tokens(Tokens::new(number))
    })
}

/// Computes the tallies of a session, by method and budget.
fn tallies(
    session: &Session,
    methods: &[Method],
) -> Result<Vec<[Tally; Budget::ALL.len()]>, Failure> {
    let all = messages(&session.body)?;
    let points: Vec<_> = session
        .replay
        .requests()
        .filter(|request| replies_from(&all, request.messages()) >= REPLIES)
        .collect();
    let mut sums = vec![[Tally::default(); Budget::ALL.len()]; methods.len()];
    let stride = points.len().div_ceil(CUTS).max(1);
    for request in points.iter().skip(stride / 2).step_by(stride) {
        let cut = request.messages();
        let Some(history) = all.get(..cut) else {
            continue;
        };
        let wanted = Wanted::of(&all, cut);
        let body = request.body();
        let whole = size(history);
        if whole < LEAST {
            continue;
        }
        for (at, budget) in Budget::ALL.iter().enumerate() {
            let Some(budget) = budget.of(whole) else {
                continue;
            };
            let made = methods
                .iter()
                .map(|method| method.apply(history, &body, budget))
                .collect::<Result<Option<Vec<_>>, _>>()?;
            // If one method cannot reach the budget, no method is counted, so that all are measured
            // on equal cuts.
            for (sums, compacted) in sums.iter_mut().zip(made.iter().flatten()) {
                if let Some(sum) = sums.get_mut(at) {
                    *sum += Tally::of(&wanted, compacted);
                }
            }
        }
    }
    Ok(sums)
}
