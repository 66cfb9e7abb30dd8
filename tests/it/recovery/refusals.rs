//! Every known wording of a refusal: the request is retried once, and the session continues from
//! the retry.

use longhaul_mock_model::{ErrorFamily, ModelOptions, Verdict};

use crate::journey::{Journey, bodies, breaks, digests, harmless, retries};
use crate::recovery::undisturbed;
use crate::sessions::named;

/// Number of requests after the overflow.
const AFTER: usize = 20;

/// Asserts that a session continues for [`AFTER`] requests after a single retry.
async fn check(family: ErrorFamily) {
    let options = ModelOptions::with_window(32_768).refusing_as(family);
    let mut journey = Journey::start(options, |config| {
        digests(config);
        undisturbed(config);
    })
    .await;
    let replay = named("cli-0164").replay().with_field("stream", "true");
    let mut steps = Vec::new();
    for body in bodies(&replay) {
        steps.push(journey.step(body).await);
        let retried = steps.iter().position(|step| step.upstream.len() == 2);
        if retried.is_some_and(|at| steps.len() > at + AFTER) {
            break;
        }
    }
    harmless(&format!("{family:?}"), &steps);
    assert_eq!(retries(&steps), 1, "{family:?}");
    assert_eq!(breaks(&steps), 1, "{family:?}: where it was sent again, and nowhere else");
    let retried = steps.iter().find(|step| step.upstream.len() == 2).unwrap();
    let verdicts: Vec<_> = retried.upstream.iter().map(|seen| seen.verdict).collect();
    assert_eq!(verdicts, [Verdict::Overflowed, Verdict::Accepted], "{family:?}");
    assert!(retried.arrived.action().starts_with("retry"), "{}", retried.arrived.action());
    let after = &steps[steps.len() - AFTER..];
    for step in after {
        assert!(step.upstream[0].body.len() < step.sent.len(), "{family:?}: the record is used");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_refused_in_any_known_wording_continues_after_one_retry() {
    let mut checks = tokio::task::JoinSet::new();
    for family in ErrorFamily::ALL {
        checks.spawn(check(family));
    }
    while let Some(done) = checks.join_next().await {
        done.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn window_learned_in_one_session_prevents_overflow_in_the_next() {
    let mut journey = Journey::start(ModelOptions::with_window(32_768), digests).await;
    let first = journey.play(bodies(&named("cli-0155").replay())).await;
    harmless("the first", &first);
    assert_eq!(retries(&first), 1);
    // A session of the same model, according to the manifest.
    let next = journey.play(bodies(&named("cli-0018").replay())).await;
    harmless("the next", &next);
    assert_eq!(retries(&next), 0);
    assert!(breaks(&next) > 0, "it was cut before it overflowed");
}

/// Builds a conversation of three messages, each `word` repeated `times` times.
fn of_words(word: &str, times: usize) -> Vec<u8> {
    let text = word.repeat(times);
    let messages = ["user", "assistant", "user"]
        .map(|role| serde_json::json!({"role": role, "content": text.as_str()}));
    let chat = serde_json::json!({"model": "m", "messages": messages});
    chat.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dense_text_of_one_conversation_shortens_no_other() {
    let mut journey = Journey::start(ModelOptions::with_window(32_768), digests).await;
    let prose = of_words("some words ", 2_000);
    let dense = of_words("\u{8a9e}\u{8a00}", 6_500);
    for (body, sends) in [(&prose, 1), (&dense, 2), (&prose, 1)] {
        let step = journey.step(body.clone()).await;
        assert_eq!((step.arrived.status, step.upstream.len()), (200, sends));
        let sent = &step.upstream[sends - 1].body;
        assert_eq!(sent == body, sends == 1, "{}", step.arrived.action());
    }
}
