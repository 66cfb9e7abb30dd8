//! A compacted conversation that continues with very many short turns.

use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{ModelOptions, RequestKind};
use serde_json::{Value, json};

use crate::journey::{Journey, STANDS_FOR_HISTORY, harmless, records};

/// The configured window in tokens; the model accepts more.
const WINDOW: u32 = 48_000;

/// Builds the request after `turns` turns, with the first `long` of them long.
fn body(long: usize, turns: usize) -> Vec<u8> {
    let said = |at: usize| {
        let words = if at < long { 700 } else { 1 };
        format!("{at} {}", "word ".repeat(words))
    };
    let asked = |at| json!({"role": "user", "content": said(at)});
    let turn = |at| [asked(at), json!({"role": "assistant", "content": "done"})];
    let mut messages: Vec<Value> = (0..turns).flat_map(turn).collect();
    messages.push(asked(turns));
    let body = json!({"model": "m", "max_tokens": 15_000, "messages": messages});
    body.to_string().into_bytes()
}

/// Plays requests past the window, each after the given number of turns, of a conversation first
/// seen with `met` turns. The first waits for a summary, and there is never a second summary.
async fn check(long: usize, met: usize, turns: impl Iterator<Item = usize>) {
    let mut journey = Journey::start(ModelOptions::with_window(1 << 20), |config| {
        config.window = Tokens::new(WINDOW);
    })
    .await;
    journey.step(body(long, met)).await;
    let steps = journey.play(turns.map(|turns| body(long, turns))).await;
    harmless("short turns", &steps);
    assert_eq!(records(&steps), 1);
    for (at, step) in steps.iter().enumerate() {
        let forwarded = str::from_utf8(&step.forwarded().body).unwrap();
        assert!(forwarded.contains(STANDS_FOR_HISTORY), "request {at}");
    }
    let seen = journey.model.seen();
    let paid = seen.iter().filter(|seen| seen.kind == RequestKind::Summary);
    assert_eq!(paid.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summary_stays_in_use_over_hundreds_of_later_turns() {
    // More than twice the number of prefixes that are looked up.
    check(60, 1, (60..=660).step_by(6)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summary_is_used_with_thousands_of_kept_turns_after_it() {
    check(0, 3_230, (3_460..=3_480).step_by(2)).await;
}
