//! A session of a hundred windows of 32,000 tokens, chained from the recorded ones.

mod story;

use crate::caches::Rule;
use crate::options::Options;
use crate::player::Player;
use crate::requests::{Marks, Requests};
use crate::sessions::{Failure, Session};
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::TokenDensity;
use serde_json::Value;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use story::{PARTS, Story};

pub(crate) const WINDOW: Tokens = Tokens::new(32_000);
/// One request in this many is sent.
const STRIDE: usize = 2;
/// In the last part, the facts of one request in this many are counted.
const SAMPLE: usize = 8;
/// Number of restarts of the proxy.
const RESTARTS: usize = 10;
/// History from which the cost counts.
const FLAT_FROM: u64 = 96_000;

/// The chained session with all planted facts.
pub(crate) struct Chained {
    story: Story,
    /// The last body.
    whole: Value,
    pub(crate) requests: Requests,
}

impl Chained {
    pub(crate) fn of(sessions: &[Session]) -> Result<Self, Failure> {
        let story = Story::of(sessions, TokenDensity::from_tenths(40))?;
        let last = story.replay.requests().next_back().ok_or("no request")?;
        let body = String::from_utf8(last.body())?;
        Ok(Self { whole: serde_json::from_str(&body)?, requests: Requests::read(&body)?, story })
    }

    /// Number of distinct user messages that a forwarded body holds whole, and of all.
    fn user_messages(&self, body: &str) -> Result<(usize, usize), Failure> {
        let forwarded: Value = serde_json::from_str(body)?;
        let shown: String = texts(&forwarded, "user").collect::<Vec<_>>().join("\n");
        let said: HashSet<String> = texts(&self.whole, "user").collect();
        let kept = said.iter().filter(|text| {
            shown.contains(&format!("[User]: {text}")) || shown.contains(&format!("\n{text}\n"))
        });
        Ok((kept.count(), said.len()))
    }

    /// Number of planted facts of the first `parts` parts that a forwarded body has.
    fn facts(&self, body: &str, parts: usize) -> usize {
        let facts = self.story.facts.iter().take(parts * EACH);
        facts.filter(|fact| body.contains(&fact.token)).count()
    }

    /// Returns the number of messages of each request that is sent.
    pub(crate) fn counts(&self) -> Vec<usize> {
        let requests = self.story.replay.requests();
        requests.map(|it| it.messages()).step_by(STRIDE).collect()
    }
}

/// Renders the figures of both profiles.
pub(crate) fn page(sessions: &[Session], options: &Options) -> Result<String, Failure> {
    let chained = Chained::of(sessions)?;
    let mut text = "## A hundred windows\n\n| profile |".to_owned();
    for rule in Rule::ALL {
        _ = write!(text, " {} |", rule.title());
    }
    text.push_str(
        " spread of the tenths | facts | user messages | compactions | refused | slowest compaction over median request, last tenth |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for &(name, profile) in &options.profiles {
        let settings = CompactionSettings { profile, ..CompactionSettings::default() };
        let policy = Policy::new(&settings, WINDOW);
        let counts = chained.counts();
        let plain = drive(&chained, &policy, &counts, Marks::None)?;
        let marked = drive(&chained, &policy, &counts, Marks::Three)?;
        text.push_str(&row(name, &chained, &plain, &marked)?);
    }
    Ok(text)
}

/// Renders the figures of a profile.
fn row(name: &str, chained: &Chained, plain: &Run, marked: &Run) -> Result<String, Failure> {
    let mut text = format!("| `{name}` |");
    for rule in Rule::ALL {
        let run = if rule == Rule::Marks { marked } else { plain };
        _ = write!(text, " {} |", hundredths(run.cost(rule)));
    }
    _ = write!(text, " {}% |", plain.spread());
    // The number of the last request, then the lowest number and the mean of the last part's requests.
    let mut cell = |last: usize, of: usize, before: &[usize]| {
        let least = before.iter().min().copied().unwrap_or_default();
        let mean = before.iter().sum::<usize>() / before.len().max(1);
        _ = write!(text, " {last} of {of} ({least}, {mean}) |");
    };
    let samples = plain.samples.iter();
    let facts: Vec<usize> = samples.map(|body| chained.facts(body, PARTS - 1)).collect();
    cell(chained.facts(&plain.last, PARTS), PARTS * EACH, &facts);
    let samples = plain.samples.iter();
    let messages: Vec<usize> =
        samples.map(|body| Ok(chained.user_messages(body)?.0)).collect::<Result<_, Failure>>()?;
    let (kept, said) = chained.user_messages(&plain.last)?;
    cell(kept, said, &messages);
    _ = writeln!(
        text,
        " {} | {} | {} |",
        plain.compactions,
        plain.refused,
        hundredths(plain.slowest()),
    );
    Ok(text)
}

/// Facts of each part.
const EACH: usize = 4;

/// Totals of a run.
#[derive(Default)]
struct Run {
    /// Cost by part and rule, in hundredths of an uncached token.
    costs: Vec<Vec<(Rule, u64)>>,
    /// Tokens by which the history grew, by part.
    grown: Vec<u64>,
    compactions: usize,
    refused: usize,
    /// Time of each request in the last part, and whether it compacted.
    times: Vec<(Duration, bool)>,
    /// The last forwarded body.
    last: String,
    /// Forwarded bodies of the last part, one of each [`SAMPLE`] requests.
    samples: Vec<String>,
}

impl Run {
    /// Cost of a new token, in hundredths.
    fn cost(&self, rule: Rule) -> u64 {
        let costs = self.costs.iter().flatten();
        let cost: u64 = costs.filter(|(of, _)| *of == rule).map(|it| it.1).sum();
        cost / self.grown.iter().sum::<u64>().max(1)
    }

    /// Largest distance of a part's cost from the mean, in percent.
    fn spread(&self) -> u64 {
        let mean = self.cost(Rule::Steps);
        let parts = self.costs.iter().zip(&self.grown);
        let away = parts.map(|(costs, grown)| {
            let costs = costs.iter().filter(|(of, _)| *of == Rule::Steps);
            let cost = costs.map(|it| it.1).sum::<u64>() / (*grown).max(1);
            cost.abs_diff(mean) * 100 / mean.max(1)
        });
        away.max().unwrap_or(0)
    }

    /// Slowest compaction over the median request of the last part, in hundredths.
    fn slowest(&self) -> u64 {
        let mut all: Vec<Duration> = self.times.iter().map(|(time, _)| *time).collect();
        all.sort_unstable();
        let median = all.get(all.len() / 2).copied().unwrap_or_default();
        let compactions = self.times.iter().filter(|(_, compacted)| *compacted);
        let slowest = compactions.map(|(time, _)| *time).max().unwrap_or_default();
        let hundredths = slowest.as_micros() * 100 / median.as_micros().max(1);
        u64::try_from(hundredths).unwrap_or(u64::MAX)
    }
}

/// Returns the texts of the messages of a role.
fn texts<'v>(body: &'v Value, role: &'static str) -> impl Iterator<Item = String> + 'v {
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages.into_iter().flatten();
    let messages = messages.filter(move |it| it.get("role").and_then(Value::as_str) == Some(role));
    messages.filter_map(|message| match message.get("content")? {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            Some(texts.collect::<Vec<_>>().join("").trim().to_owned())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    })
}

/// Sends requests of `counts` messages.
fn drive(
    chained: &Chained,
    policy: &Policy,
    counts: &[usize],
    marks: Marks,
) -> Result<Run, Failure> {
    let Chained { story, requests, .. } = chained;
    let rules = match marks {
        Marks::None => vec![Rule::Steps, Rule::Local, Rule::Messages],
        Marks::Three => vec![Rule::Marks],
    };
    let mut player = Player::new(policy.clone(), &rules);
    let mut run = Run { costs: vec![Vec::new(); PARTS], grown: vec![0; PARTS], ..Run::default() };
    let mut before = 0;
    let life = counts.len().div_ceil(RESTARTS + 1);
    for (at, &count) in counts.iter().enumerate() {
        if at > 0 && at % life == 0 {
            player.restart();
        }
        let body = requests.body(count, marks)?;
        let began = Instant::now();
        let played = player.send(body.as_bytes())?;
        let took = began.elapsed();
        let now = story.tokens.get(count).copied().unwrap_or(before);
        let place = story.ends.partition_point(|end| *end < count).min(PARTS - 1);
        let grown = now - before;
        before = now;
        run.compactions += usize::from(played.compacted);
        run.refused += usize::from(played.refused);
        if place + 1 == PARTS && at % life > 1 {
            run.times.push((took, played.compacted));
        }
        let forwarded = String::from_utf8(played.forwarded)?;
        if place + 1 == PARTS && at % SAMPLE == 0 {
            run.samples.push(forwarded.clone());
        }
        if at + 1 == counts.len() {
            run.last = forwarded;
        }
        if now > FLAT_FROM {
            let costs = played.charges.iter().map(|(rule, charge)| (*rule, charge.cost(*rule)));
            if let (Some(sums), Some(sum)) = (run.costs.get_mut(place), run.grown.get_mut(place)) {
                sums.extend(costs);
                *sum += grown;
            }
        }
    }
    Ok(run)
}

fn hundredths(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
