//! A session of a hundred windows of 32,000 tokens: whether it completes without an error, how the
//! cost of its input grows, and how many of forty facts survive to its end.
//!
//! Only every `--stride`th request is sent, with all the history before it. At intervals, the proxy
//! is replaced by a fresh one, and an older request is continued differently before the session
//! continues.

mod story;

use crate::goal::{Goal, HEADING};
use crate::goals::{hundredths, whole};
use crate::options::{Options, WindowFrom};
use crate::play::{Agent, Setup, step};
use crate::prices::{FREE_WRITES, Input};
use crate::sessions::{Failure, Session};
use longhaul_mock_model::{PlantedFact, ReplayRequest, RequestKind, Verdict};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};
use story::{PARTS, Story};

const WINDOW: u64 = 32_000;
/// Number of proxy restarts, and number of forks from an older request.
const RESTARTS: usize = 10;
const FORKS: usize = 13;
/// Distance of a fork, in requests back.
const FORK_DEPTH: usize = 7;
/// Continuation sent in a fork.
const FORK: &str = r#",{"role":"user","content":"Leave that, and tell me where we stand."}]}"#;
/// History length at which the flatness check begins: the first breaks come in the windows before
/// it.
const FLAT_FROM: u64 = 3 * WINDOW;
/// The aims:
///
/// - forty facts;
/// - at most twice the price of a token for each token of history;
/// - no part of the session more than a tenth away from the mean, in hundredths.
const FACTS: u64 = 40;
const MOST_COST: u64 = 200;
const MOST_AWAY: u64 = 10;

/// Totals of one part of the session.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    requests: usize,
    changes: usize,
    retries: usize,
    /// Input that the model accepted.
    input: Input,
    /// Tokens by which the history grew.
    grown: u64,
    /// Bytes that the agent sent, and the time until the replies arrived.
    bytes: u64,
    took: Duration,
}

impl Part {
    /// Cost of each new token of history, in hundredths of an uncached token.
    fn cost(&self) -> u64 {
        self.input.cost(FREE_WRITES) / self.grown.max(1)
    }
}

/// Result of the whole session.
struct Outcome {
    parts: Vec<Part>,
    sent: usize,
    errors: usize,
    restarts: usize,
    forks: usize,
    /// Facts present in the last accepted request.
    standing: Vec<PlantedFact>,
    largest: usize,
}

/// Renders the report page.
pub(crate) fn page(options: &Options, sessions: &[Session]) -> Result<String, Failure> {
    let story = Story::of(sessions, options.density)?;
    let profile = options.profiles.first().ok_or("no profile")?;
    let mut told = crate::setup(options, profile, WINDOW);
    if options.window_from == WindowFrom::Refusal {
        told.settings.retain(|(key, _)| key != "window");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(drive(&story, &told, options))?;
    Ok(written(&story, &outcome)?)
}

/// Sends every request of the story.
async fn drive(story: &Story, setup: &Setup, options: &Options) -> Result<Outcome, Failure> {
    let mut agent = Agent::start(setup).await?;
    let requests: Vec<ReplayRequest<'_>> =
        story.replay.requests().step_by(options.stride).collect();
    let mut out = Outcome {
        parts: vec![Part::default(); PARTS],
        sent: requests.len(),
        errors: 0,
        restarts: 0,
        forks: 0,
        standing: Vec::new(),
        largest: 0,
    };
    let mut answered = Vec::new();
    let life = requests.len().div_ceil(RESTARTS + 1);
    let undisturbed = requests.len().div_ceil(FORKS + 1);
    for (at, request) in requests.iter().enumerate() {
        if at > 0 && at % life == 0 {
            agent.restart_proxy().await?;
            out.restarts += 1;
        }
        if at > FORK_DEPTH && at % undisturbed == 0 {
            out.forks += 1;
            let older = requests.get(at - FORK_DEPTH).ok_or("no older request")?;
            let mut body = older.body();
            body.truncate(body.len() - "]}".len());
            body.extend_from_slice(FORK.as_bytes());
            let ordinal = requests.len() + at;
            out.errors += usize::from(agent.ask(ordinal, body).await?.is_none());
        }
        let body = request.body();
        let sent = body.len();
        let begun = Instant::now();
        let Some(action) = agent.ask(at, body).await? else {
            out.errors += 1;
            let verdict = agent.seen().pop().map(|seen| seen.verdict);
            return Err(format!("request {at} got no answer: {verdict:?}").into());
        };
        let took = begun.elapsed();
        out.largest = out.largest.max(sent);
        let now = story.tokens.get(request.messages()).copied();
        let now = now.ok_or("a request of no length")?;
        let place = story.ends.partition_point(|end| *end < request.messages());
        answered.push((at, action, place, now, sent, took));
        if at % 100 == 0 {
            progress(at, requests.len());
        }
    }
    let seen = agent.seen();
    let mut before = 0;
    let mut chats = seen
        .iter()
        .filter(|seen| seen.kind == RequestKind::Chat)
        .peekable();
    for (at, action, place, now, sent, took) in answered {
        let mine = at.to_string();
        let is_mine = |seen: &&longhaul_mock_model::SeenRequest| {
            let marked = seen.headers.get(crate::play::ORDINAL);
            marked.is_some_and(|mark| mark.as_bytes() == mine.as_bytes())
        };
        while chats.next_if(|seen| !is_mine(seen)).is_some() {}
        let step = step(chats.clone().take(2), at, &action)?;
        let grown = now - before;
        before = now;
        let Some(part) = out.parts.get_mut(place).filter(|_| now > FLAT_FROM) else {
            continue;
        };
        part.requests += 1;
        part.changes += usize::from(step.changed);
        part.retries += usize::from(step.retried);
        part.input = part.input + step.input;
        part.grown += grown;
        part.bytes += sent as u64;
        part.took += took;
    }
    let accepted = |seen: &&longhaul_mock_model::SeenRequest| seen.verdict == Verdict::Accepted;
    let last = seen.iter().rfind(accepted).ok_or("nothing was accepted")?;
    let last = String::from_utf8_lossy(&last.body);
    let stands = |fact: &&PlantedFact| last.contains(&fact.token);
    out.standing = story.facts.iter().filter(stands).cloned().collect();
    Ok(out)
}

fn progress(at: usize, all: usize) {
    // A failure to print progress does not end the run.
    _ = writeln!(std::io::stderr(), "{at} of {all}");
}

fn written(story: &Story, out: &Outcome) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let tokens = story.tokens.last().copied().unwrap_or(0);
    writeln!(
        text,
        "{} requests sent, {tokens} tokens, the largest body {} bytes; {} restarts, {} forks\n",
        out.sent, out.largest, out.restarts, out.forks
    )?;
    writeln!(
        text,
        "| windows | requests | prefix changes | sent twice | cost a new token | µs a kB |\n\
         |---|--:|--:|--:|--:|--:|"
    )?;
    let mut from = FLAT_FROM / WINDOW;
    for (end, part) in story.ends.iter().zip(&out.parts) {
        let to = story.tokens.get(*end).copied().unwrap_or(tokens) / WINDOW;
        writeln!(
            text,
            "| {from} to {to} | {} | {} | {} | {} | {} |",
            part.requests,
            part.changes,
            part.retries,
            hundredths(part.cost()),
            part.took.as_micros() * 1_000 / u128::from(part.bytes.max(1)),
        )?;
        from = to;
    }
    writeln!(text, "\nFacts that do not stand:")?;
    for fact in story.facts.iter().filter(|it| !out.standing.contains(it)) {
        writeln!(text, "- {:?}: `{}`", fact.place, fact.token)?;
    }
    let sum = out.parts.iter().fold(Part::default(), |sum, part| Part {
        input: sum.input + part.input,
        grown: sum.grown + part.grown,
        ..sum
    });
    let mean = sum.cost();
    let away = out.parts.iter().map(|part| part.cost().abs_diff(mean));
    let away = away.max().unwrap_or(0) * 100 / mean.max(1);
    writeln!(text, "\n{HEADING}")?;
    let mut line = |goal: Goal, what, found, shown: fn(u64) -> String| {
        writeln!(text, "{}", goal.line(what, found, shown))
    };
    line(
        Goal::AtMost(0),
        "requests without an answer",
        out.errors as u64,
        whole,
    )?;
    line(
        Goal::AtLeast(FACTS),
        "facts in the last request",
        out.standing.len() as u64,
        whole,
    )?;
    line(
        Goal::AtMost(MOST_COST),
        "cost of a new token at 1 / 0.1",
        mean,
        hundredths,
    )?;
    line(
        Goal::AtMost(MOST_AWAY),
        "hundredths that a part's cost is from the mean",
        away,
        whole,
    )?;
    Ok(text)
}
