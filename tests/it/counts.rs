//! The effect of a provider's token counts: they change when history is compacted, but never which
//! results are cleared.

use longhaul::Config;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{ModelOptions, TokenDensity};
use tokio::task::JoinSet;

use crate::journey::{Journey, Step, bodies, digests, grows, harmless, records, retries};
use crate::sessions::named;

const WINDOW: u32 = 32_768;
/// The model of `cli-0018`.
const MODEL: &str = "claude-opus-4-5-20251101";
/// The model of `cli-0057`.
const OTHER_MODEL: &str = "claude-opus-4-6";
/// A model that counts half as many tokens again as the estimate.
const DENSE: TokenDensity = TokenDensity::DENSE;

/// Configures the model's window, in the model's own tokens.
fn known(config: &mut Config) {
    digests(config);
    config.window = Tokens::new(WINDOW);
}

async fn start(density: TokenDensity) -> Journey {
    let options = ModelOptions { density, ..ModelOptions::with_window(u64::from(WINDOW)) };
    Journey::start(options, known).await
}

/// Plays a session twice: with counts, and as a stream without a request for counts.
async fn check(session: &'static str) {
    let replay = named(session).replay();
    let mut counted = start(DENSE).await;
    let steps = counted.play(bodies(&replay)).await;
    harmless(session, &steps);
    assert_eq!(retries(&steps), 0, "{session}: refused with counts");
    assert!(records(&steps) > 1, "{session}: is compacted");
    lasts(session, &steps);
    let mut uncounted = start(DENSE).await;
    let silent = replay.with_field("stream", "true");
    let steps = uncounted.play(bodies(&silent)).await;
    harmless(session, &steps);
    assert!(retries(&steps) > 0, "{session}: not refused without counts");
}

/// Checks that a second compaction never follows while the last count is still that of the request
/// before the first, unless the next request adds much.
fn lasts(session: &str, steps: &[Step]) {
    let forwarded = |at: usize| &steps[at].forwarded().body;
    for at in 2..steps.len() {
        let broke = !grows(forwarded(at - 2), forwarded(at - 1));
        let brought = steps[at].sent.len() - steps[at - 1].sent.len();
        let much = brought > forwarded(at - 1).len() / 4;
        assert!(
            !broke || much || grows(forwarded(at - 1), forwarded(at)),
            "{session}, request {at}: compacted again at once"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_counts_prevent_refusals_that_occur_without_them() {
    let mut checks = JoinSet::new();
    for session in ["cli-0018", "cli-0057", "oh-my-posh-0277"] {
        checks.spawn(check(session));
    }
    while let Some(done) = checks.join_next().await {
        done.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_one_conversation_apply_to_the_first_request_of_another() {
    let one = named("cli-0018").replay();
    let other = named("cli-0057").replay();
    let mut first = None;
    for body in bodies(&other) {
        let body = String::from_utf8(body).unwrap();
        let body = body.replace(OTHER_MODEL, MODEL).into_bytes();
        // Below the mark by longhaul's estimate, but above the window by the model's count.
        if (33_000..37_000).contains(&DENSE.request_tokens(&body).unwrap()) {
            first = Some(body);
        }
    }
    let first = first.unwrap();
    let mut alone = start(DENSE).await;
    assert_eq!(retries(&[alone.step(first.clone()).await]), 1);
    let mut both = start(DENSE).await;
    both.play(bodies(&one).take(40)).await;
    let step = both.step(first).await;
    assert_eq!(retries(std::slice::from_ref(&step)), 0);
    harmless("another", &[step]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chinese_session_without_counts_is_not_refused() {
    let text = "修改文件后运行测试，再看结果。".repeat(28);
    let turn = format!(
        r#"{{"role":"assistant","content":"{text}"}},{{"role":"user","content":"{text}"}}"#
    );
    let mut journey = start(TokenDensity::STANDARD).await;
    let mut messages = format!(r#"{{"role":"user","content":"{text}"}}"#);
    let mut steps = Vec::new();
    for _ in 0..60 {
        let body = format!(r#"{{"model":"m","stream":true,"messages":[{messages}]}}"#);
        steps.push(journey.step(body.into_bytes()).await);
        messages = format!("{messages},{turn}");
    }
    let last = TokenDensity::STANDARD.request_tokens(&steps.last().unwrap().sent);
    assert!(last.unwrap() > u64::from(WINDOW), "{last:?}");
    harmless("in Chinese", &steps);
    assert_eq!(retries(&steps), 0);
}
