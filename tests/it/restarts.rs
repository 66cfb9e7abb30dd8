//! Clearing is a function of the history: a restart with an empty store changes no byte.

use crate::caller::{Caller, talk};
use crate::journey::{Journey, STANDS_FOR_HISTORY, Step, bodies, digests, grows};
use crate::program::Program;
use crate::sessions::named;
use longhaul::Config;
use longhaul_core::policy::Profile;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{Model, ModelOptions};
use memchr::memmem;
use serde_json::Value;

/// Sessions with the most tool results.
const SESSIONS: [&str; 10] = [
    "agentv-0431",
    "agentv-0432",
    "agentv-0435",
    "cli-0018",
    "cli-0057",
    "cli-0077",
    "context-evaluator-0368",
    "oh-my-posh-0277",
    "oh-my-posh-0306",
    "pi-before-compaction-e1",
];
const CLEARED: &str = "[Old tool result content cleared]";
/// Requests between two restarts.
const INTERVAL: usize = 3;

fn contains(step: &Step, text: &str) -> bool {
    memmem::find(&step.forwarded().body, text.as_bytes()).is_some()
}

/// Requests with a cleared result, and those in which a digest replaces history.
#[derive(Default)]
struct Changed {
    cleared: usize,
    digested: usize,
}

/// Returns `body` as a request for a stream, whose reply states no token counts. Counts move the mark.
fn streamed(body: &[u8]) -> Vec<u8> {
    let mut request: Value = serde_json::from_slice(body).unwrap();
    request["stream"] = true.into();
    request.to_string().into_bytes()
}

/// Plays `session` once without a restart and once with a restart before every third request, and
/// compares the forwarded bytes. Every restart loses the store.
async fn compare(session: &str, change: fn(&mut Config)) -> Changed {
    let options = ModelOptions::with_window(10_000_000);
    let mut steady = Journey::start(options.clone(), change).await;
    let mut restarted = Journey::start(options, change).await;
    let mut changed = Changed::default();
    for (at, body) in bodies(&named(session).replay()).map(|body| streamed(&body)).enumerate() {
        if at % INTERVAL == INTERVAL - 1 {
            restarted.restart().await;
        }
        let one = steady.step(body.clone()).await;
        let other = restarted.step(body).await;
        assert!(one.forwarded().body == other.forwarded().body, "{session}, request {at}");
        changed.cleared += usize::from(contains(&one, CLEARED));
        changed.digested += usize::from(contains(&one, STANDS_FOR_HISTORY));
    }
    changed
}

/// Compares all sessions.
async fn compare_all(change: fn(&mut Config)) -> Changed {
    let mut all = Changed::default();
    for session in SESSIONS {
        let changed = compare(session, change).await;
        all.cleared += changed.cleared;
        all.digested += changed.digested;
    }
    all
}

#[tokio::test]
async fn rule_based_clearing_is_identical_after_restarts() {
    let changed = compare_all(|config| {
        config.window = Tokens::new(200_000);
        config.compaction.profile = Profile::Standard;
        digests(config);
    })
    .await;
    assert!(changed.cleared > 100, "{}", changed.cleared);
}

#[tokio::test]
async fn digests_at_the_mark_are_identical_after_restarts() {
    let changed = compare_all(|config| {
        config.window = Tokens::new(48_000);
        digests(config);
    })
    .await;
    assert!(changed.digested > 100, "{}", changed.digested);
}

/// The model is never called: nothing is summarised.
#[tokio::test]
async fn digests_before_the_first_summary_are_identical_after_restarts() {
    let changed = compare_all(|config| {
        config.window = Tokens::new(48_000);
        config.summary.max_per_hour = 0;
    })
    .await;
    assert!(changed.digested > 100, "{}", changed.digested);
}

#[tokio::test]
async fn a_restarted_process_begins_with_the_windows_that_it_learned() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let env = [("HOME", home.path().to_str().unwrap()), ("LONGHAUL_SUMMARY_MODEL", "none")];
    let mut refusals = Vec::new();
    for tokens in [2_000, 2_100] {
        let program = Program::told(&model.url(), &env);
        let reply = Caller::of(program.address()).ask(talk(20, tokens)).await;
        assert_eq!(reply.status, 200);
        program.closed();
        let refused = model.seen().iter().filter(|seen| seen.status == 400).count();
        refusals.push(refused);
    }
    assert_eq!(refusals, [1, 1], "the second process knows the window");
}

#[tokio::test]
async fn a_result_clipped_at_its_arrival_stays_clipped_and_breaks_no_prefix() {
    let (mut large, mut whole) = (0, 0);
    for session in SESSIONS {
        let options = ModelOptions::with_window(10_000_000);
        let clips = |config: &mut Config| {
            config.compaction.clip_above = Some(Tokens::new(500));
            // Nothing is cleared or condensed.
            config.compaction.protect = Some(Tokens::new(10_000_000));
            config.compaction.proactive = false;
        };
        let mut journey = Journey::start(options, clips).await;
        let steps = journey.play(bodies(&named(session).replay())).await;
        for pair in steps.windows(2) {
            let [before, after] = [&pair[0], &pair[1]].map(|it| &it.forwarded().body);
            assert!(grows(before, after), "{session}");
        }
        let last = steps.last().unwrap();
        let sizes = |body: &[u8]| {
            let body: Value = serde_json::from_slice(body).unwrap();
            let messages = body["messages"].as_array().unwrap().iter();
            let results = messages.filter(|it| it["role"] == "tool");
            let texts = results.filter_map(|it| it["content"].as_str());
            texts.filter(|it| it.chars().count() > 4 * 520).count()
        };
        large += sizes(&last.sent);
        whole += sizes(&last.forwarded().body);
    }
    // Rules that the agent loaded stay whole.
    assert!(large > 100 && whole * 20 < large, "{whole} of {large}");
}
