//! Refusals that name no size, in any language, nonsense or nothing at all: their repetition is evidence.

use longhaul::Config;
use serde_json::{Value, json};

use super::{Reported, converted, refusing, reported};
use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;

/// Rules may be built from the first list alone. The second was committed before the first rule.
const BUILT: &str = include_str!("../../../fixtures/unseen/repeated_built.jsonl");
const SEALED: &str = include_str!("../../../fixtures/unseen/repeated_sealed.jsonl");

const STEPS: usize = 38;
/// Steps that are accepted.
const ACCEPTED: usize = 6;
/// Languages whose vetoes and look-alikes the judge has read: such a refusal names another cause.
const READ: [&str; 9] = ["en", "zh", "ja", "ko", "ru", "de", "fr", "es", "pt"];

/// Returns the requests of a chat of this many bytes that grows by 3% a step.
fn requests(api: &str, bytes: usize) -> Vec<String> {
    let mut messages = vec![json!({"role": "user", "content": "Read the project."})];
    let (mut size, mut bodies) = (0, Vec::new());
    for step in 0..STEPS {
        let id = format!("call_{step}");
        let arguments = format!("{{\"path\":\"src/part_{step}.rs\"}}");
        let function = json!({"name": "read", "arguments": arguments});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": function}]}));
        let line = format!("line {step} of a file\n");
        let length = if step == 0 { bytes } else { size * 3 / 100 };
        size += length;
        let text = line.repeat(length / line.len() + 1);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        let chat = json!({"model": "model-of-the-report", "messages": messages});
        bodies.push(converted(api, chat).to_string());
    }
    bodies
}

/// Counts of a session.
struct Seen {
    /// Steps above the limit that ended with an answer, of all of them.
    answered: usize,
    refused: usize,
    /// Requests that the upstream received and the client did not send.
    extra: usize,
    /// Whether the last request arrived as the client sent it.
    is_whole: bool,
}

/// Plays a session whose upstream refuses `refuses(body, step)`. The agent repeats a refused request once, and goes on.
async fn play(
    one: &Reported,
    bodies: &[String],
    refuses: impl Fn(&[u8], usize) -> bool + Send + 'static,
) -> Seen {
    let (path, _, answer) = one.api();
    let (address, received) = refusing(one, refuses).await;
    let base = format!("http://{address}/v1");
    let changes = [("upstream.base", &*base), ("upstream.ask", "false")];
    let mut config = Config::default_with(changes).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    let caller = Caller::of(proxy.address);
    let mut seen = Seen { answered: 0, refused: 0, extra: 0, is_whole: false };
    let mut sent = 0;
    for (step, body) in bodies.iter().enumerate() {
        for _ in 0..2 {
            let reply = caller.ask_at(path, &[], body.clone()).await;
            sent += 1;
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            if text == answer {
                seen.answered += usize::from(step >= ACCEPTED);
                break;
            }
            // Never another error than the provider's.
            assert_eq!((reply.status, &text), (one.status, &one.body), "{}", one.id);
            seen.refused += 1;
        }
    }
    let received = received.lock().unwrap();
    seen.extra = received.len() - sent;
    seen.is_whole = received.last() == bodies.last().map(String::len).as_ref();
    seen
}

fn with_apis(list: &str) -> impl Iterator<Item = Reported> {
    let apis = ["chat", "messages", "responses"].into_iter().cycle();
    reported(list).into_iter().zip(apis).map(|(one, api)| Reported { api: api.into(), ..one })
}

/// Returns the steps above the limit that were answered, of all of them, and what is wrong.
async fn refusals(list: &str, bytes: usize) -> (usize, usize, Vec<String>) {
    let (mut answered, mut all, mut wrong) = (0, 0, Vec::new());
    for one in with_apis(list).filter(|one| one.is_overflow) {
        let bodies = requests(&one.api, bytes);
        let limit = bodies[ACCEPTED].len() - 1;
        let seen = play(&one, &bodies, move |body, _| body.len() > limit).await;
        (answered, all) = (answered + seen.answered, all + STEPS - ACCEPTED);
        let most = if one.status == 500 { 4 } else { 2 };
        if seen.refused > most {
            wrong
                .push(format!("{}: {} refusals, {} answered", one.id, seen.refused, seen.answered));
        }
    }
    (answered, all, wrong)
}

/// Returns the look-alikes that are not left alone: another language costs one smaller request, and no history.
async fn look_alikes(list: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for one in with_apis(list).filter(|one| !one.is_overflow) {
        let bodies = &requests(&one.api, 120_000)[..ACCEPTED + 4];
        let last: Value = serde_json::from_str(&bodies[bodies.len() - 1]).unwrap();
        // The cause is gone with the last step.
        let key = one.api().1;
        let whole = last[key].as_array().unwrap().len();
        let refuses = move |body: &[u8], before: usize| {
            let body: Value = serde_json::from_slice(body).unwrap();
            before >= ACCEPTED && body[key].as_array().unwrap().len() < whole
        };
        let seen = play(&one, bodies, refuses).await;
        let most = usize::from(!READ.contains(&&*one.language));
        if (seen.answered, seen.refused, seen.is_whole) != (1, 6, true) || seen.extra > most {
            wrong.push(format!(
                "{}: {} answered, {} refused, {} extra, whole: {}",
                one.id, seen.answered, seen.refused, seen.extra, seen.is_whole
            ));
        }
    }
    wrong
}

#[tokio::test]
async fn a_size_refused_twice_is_an_overflow_in_any_language() {
    for (list, text) in [("built", BUILT), ("sealed", SEALED)] {
        for bytes in [20_000, 120_000, 480_000] {
            let (answered, all, wrong) = refusals(text, bytes).await;
            println!("{list} {bytes}: {answered} of {all}, {wrong:?}");
            assert!(answered * 100 >= all * 90, "{list} {bytes}: {answered} of {all}, {wrong:#?}");
        }
    }
}

#[tokio::test]
async fn another_cause_in_any_language_costs_one_smaller_request_and_no_history() {
    for (list, text) in [("built", BUILT), ("sealed", SEALED)] {
        let wrong = look_alikes(text).await;
        assert!(wrong.is_empty(), "{list}: {wrong:#?}");
    }
}
