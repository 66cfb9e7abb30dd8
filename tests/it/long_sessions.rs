//! Sessions of several windows, end to end: the agent's replies, the forwarded bodies, and the
//! surviving facts.

mod restarts;
mod short_turns;
mod summaries;
mod thousand;

use longhaul::Config;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{
    ModelOptions, PlantPosition, PlantedFact, SessionRecording, TokenDensity,
};
use memchr::memmem;
use tokio::task::JoinSet;

use crate::journey::{Journey, Step, bodies, breaks, digests, harmless, records, retries};
use crate::recovery::{directly, size};
use crate::sessions::named;

/// A session, and a model whose window it exceeds.
#[derive(Clone, Copy)]
struct Case {
    session: &'static str,
    turns: Turns,
    window: u64,
    density: TokenDensity,
}

/// Kind of user turns in a session.
#[derive(Clone, Copy, PartialEq)]
enum Turns {
    /// A person's session, with three user turns or more.
    Many,
    /// An unattended agent's session: one request, then steps with tools.
    One,
}

impl Case {
    fn options(&self) -> ModelOptions {
        ModelOptions { density: self.density, ..ModelOptions::with_window(self.window) }
    }

    /// Returns the session with planted facts, and the facts.
    fn planted(&self) -> (SessionRecording, Vec<PlantedFact>) {
        let replay = named(self.session).replay();
        let replay = match self.turns {
            Turns::Many => replay,
            Turns::One => replay.headless().unwrap(),
        };
        let (replay, facts) = replay.planted(&PlantedFact::one_each()).unwrap();
        let places = if self.turns == Turns::Many { 4 } else { 3 };
        assert_eq!(facts.len(), places, "{}", self.session);
        (replay, facts)
    }

    fn name(&self) -> String {
        let turns = if self.turns == Turns::Many { "many turns" } else { "one turn" };
        format!("{} with {turns} at {} and {:?}", self.session, self.window, self.density)
    }

    /// Plays the whole session and checks the promises for long sessions.
    async fn check(self, change: fn(&mut Config)) -> Vec<Step> {
        let name = self.name();
        let (replay, facts) = self.planted();
        let last = replay.requests().next_back().unwrap().body();
        assert!(size(&last, self.density).await >= 3 * self.window, "{name}: three windows");
        assert!(!directly(self.options(), &last).await.is_answer(), "{name}: it needs a proxy");
        let mut journey = Journey::start(self.options(), change).await;
        let steps = journey.play(bodies(&replay)).await;
        harmless(&name, &steps);
        let forwarded = &steps.last().unwrap().forwarded().body;
        // An agent reads a cleared result again; no words of one are kept.
        let named = |fact: &PlantedFact| fact.place != PlantPosition::ToolResult;
        for fact in facts.into_iter().filter(named) {
            let token = fact.token.as_bytes();
            let stands = memmem::find(forwarded, token).is_some();
            assert!(stands, "{name}: {:?} is lost", fact.place);
        }
        let (breaks, records) = (breaks(&steps), records(&steps));
        let clearings = tool_tokens(&last) / self.clearing();
        assert!(breaks <= clearings + records, "{name}: {breaks} > {clearings} + {records}");
        steps
    }

    /// Minimum freed by clearing results alone, in plain tokens: the distance from the hard mark to
    /// the relief mark, for a window in the proxy's own tokens.
    fn clearing(&self) -> usize {
        // The densest text has 2.6 bytes per token; the plain estimate assumes 4.
        let window = u32::try_from(self.window / 2).unwrap();
        let marks = Policy::new(&CompactionSettings::default(), Tokens::new(window)).thresholds;
        (marks.hard - marks.prune_target).get() as usize
    }
}

/// Plain estimate of all results of a session.
fn tool_tokens(body: &[u8]) -> usize {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|result| result["content"].to_string().len() / 4).sum()
}

/// Checks the promises for each of these sessions, concurrently.
async fn check(cases: &[Case], change: fn(&mut Config)) {
    let mut checks = JoinSet::new();
    for case in cases {
        let case = *case;
        checks.spawn(async move {
            let steps = case.check(change).await;
            // The first refusal reveals the window; later requests stay below it.
            assert_eq!(retries(&steps), 1, "{}", case.name());
        });
    }
    while let Some(done) = checks.join_next().await {
        done.unwrap();
    }
}

const fn case(session: &'static str, turns: Turns, window: u64, density: TokenDensity) -> Case {
    Case { session, turns, window, density }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_three_32k_windows_complete() {
    let (standard, dense) = (TokenDensity::STANDARD, TokenDensity::DENSE);
    let cases = [
        case("cli-0018", Turns::Many, 30_000, standard),
        case("cli-0018", Turns::One, 32_768, dense),
        case("cli-0057", Turns::Many, 32_768, dense),
        case("cli-0057", Turns::One, 32_768, standard),
        case("context-evaluator-0368", Turns::Many, 32_768, standard),
        case("context-evaluator-0368", Turns::One, 32_768, dense),
        case("oh-my-posh-0277", Turns::Many, 32_768, dense),
        case("oh-my-posh-0277", Turns::One, 32_768, dense),
    ];
    check(&cases, digests).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_three_smaller_windows_complete() {
    let mut checks = JoinSet::new();
    for case in [
        case("cli-0237", Turns::Many, 16_384, TokenDensity::STANDARD),
        case("cli-0238", Turns::Many, 16_384, TokenDensity::STANDARD),
        case("context-evaluator-0335", Turns::One, 16_384, TokenDensity::DENSE),
        case("oh-my-posh-0289", Turns::Many, 7_000, TokenDensity::STANDARD),
    ] {
        checks.spawn(case.check(digests));
    }
    while let Some(done) = checks.join_next().await {
        done.unwrap();
    }
}
