//! Compaction on demand of the Messages API.

use longhaul_mock_model::{
    CompactionFault, ErrorFamily, ModelOptions, PreservedThinking, SeenRequest, ThinkingRules,
    Verdict,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Outcome, Play, holds_compaction};
use crate::caller::Caller;
use crate::messages::thinking::{Agent, Keeps, SESSIONS};

const PATH: &str = "/v1/messages?beta=true";
const FIELDS: [(&str, &str); 2] = [("x-api-key", "k"), ("anthropic-version", "2023-06-01")];
const MODEL: &str = "claude-opus-5-5";
const LONG: &str = "cli-3a782158";
const BETA: &str = "compact-2026-09-04";

fn options(window: u64) -> ModelOptions {
    ModelOptions {
        thinking: ThinkingRules::ByModel(PreservedThinking::default()),
        ..ModelOptions::with_window(window).refusing_as(ErrorFamily::Anthropic)
    }
}

fn agent(session: &str, model: &str) -> Agent {
    Agent::new(session, model, json!({"type": "adaptive"}), Keeps::All)
}

/// Start of a message of longhaul's own.
const OWN_MESSAGE: &str = "[Earlier conversation, condensed by longhaul]";

/// Returns the message of longhaul's own with the user's words, and the text of the message before it, if the
/// request has a block.
fn restated(seen: &SeenRequest) -> Option<(String, String)> {
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let is_own = |it: &Value| it["content"].as_str().is_some_and(|it| it.starts_with(OWN_MESSAGE));
    let at = messages.iter().position(is_own).filter(|_| holds_compaction(seen))?;
    Some((messages[at].to_string(), messages[at - 1].to_string()))
}

/// Reads an original by its ID.
async fn recalled(setup: &Play, id: &str) -> String {
    let mut socket = TcpStream::connect(setup.proxy.address).await.unwrap();
    let request = format!(
        "GET /__longhaul__/recall/{id} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    socket.read_to_end(&mut reply).await.unwrap();
    String::from_utf8_lossy(&reply).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_users_words_follow_behind_the_next_request_and_stay_there() {
    let mut restatements = 0;
    for session in SESSIONS {
        let setup = Play::start(options(96_000), &[("recall", "url")]).await;
        let mut agent = agent(session, "claude-sonnet-5-5");
        let (mut compacted, mut stated) = (0, Vec::new());
        for end in agent.ends.clone() {
            // The user speaks again in the third request with a block.
            if compacted == 2 {
                agent.say(end, "Never touch the lock file.");
            }
            let (reply, seen) = setup.ask((PATH, &FIELDS), &agent.request(end)).await;
            let mut outcome = Outcome::default();
            outcome.add(&end.to_string(), &reply, &seen);
            // A result that fills the window at once gets the digest.
            if outcome.digests > 0 || compacted == 6 {
                break;
            }
            assert_eq!((outcome.dropped, outcome.stripped), (0, 0), "{session} {end}");
            compacted += outcome.compacted;
            stated.extend(holds_compaction(&seen[0]).then(|| restated(&seen[0])));
            agent.take(end, &reply.body);
        }
        // A message of the recording may be new before.
        if let [before @ .., Some(first), _, _, last] = &*stated
            && first.1.contains("Never touch the lock file.")
        {
            assert!(first.0.contains("## What the User Said"), "{session}: {}", first.0);
            assert_eq!(before, [None, None], "{session}");
            assert_eq!(last.as_ref(), Some(first), "{session}");
            // The message has the line that the block cannot have.
            let (_, line) = first.0.split_once("/__longhaul__/recall/").unwrap();
            let original = recalled(&setup, line.split(']').next().unwrap()).await;
            let is_history = original.starts_with("HTTP/1.1 200") && original.contains(" message ");
            assert!(is_history, "{line} {original}");
            restatements += 1;
        } else {
            println!("{session}: {stated:?}");
        }
    }
    assert!(restatements > 1, "{restatements}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_user_says_while_the_provider_writes_stays_and_costs_no_thinking() {
    const MEANWHILE: &str = "Leave the lock file alone.";
    const LATER: &str = "Report each hour.";
    let mut restatements = 0;
    for session in SESSIONS {
        let setup = Play::start(options(96_000), &[]).await;
        let mut agent = agent(session, "claude-sonnet-5-5");
        setup.model.hold_summaries(true);
        let (mut said, mut compacted) = (false, 0);
        for end in agent.ends.clone() {
            let says = !said && !setup.orders().is_empty();
            if says {
                agent.say(end, MEANWHILE);
            } else if compacted == 2 {
                agent.say(end, LATER);
            }
            let (reply, seen) = setup.send((PATH, &FIELDS), &agent.request(end)).await;
            let mut outcome = Outcome::default();
            outcome.add(&end.to_string(), &reply, &seen);
            if outcome.digests > 0 || compacted == 4 {
                break;
            }
            let lost = (outcome.dropped, outcome.stripped, outcome.twice);
            assert_eq!(lost, (0, 0, 0), "{session} {end}");
            if holds_compaction(&seen[0]) {
                compacted += 1;
                let body = String::from_utf8_lossy(&seen[0].body).into_owned();
                assert!(said && body.contains(MEANWHILE), "{session} {end}");
                // Earlier words follow behind words that are new by then.
                let behind = restated(&seen[0]).map(|(_, before)| before).unwrap_or_default();
                assert!(!behind.contains(MEANWHILE), "{session} {end}");
                restatements += usize::from(behind.contains(LATER));
            }
            agent.take(end, &reply.body);
            said |= says;
            if says {
                setup.model.hold_summaries(false);
            }
            if said {
                setup.settle().await;
            }
        }
    }
    assert!(restatements > 2, "{restatements}");
}

/// Plays a session, and counts each request as a client does. `strike` runs before each request, with the number
/// of requests with a compaction so far.
async fn play(
    setup: &mut Play,
    agent: &mut Agent,
    mut strike: impl AsyncFnMut(&mut Play, &mut Value, usize),
) -> Outcome {
    let mut outcome = Outcome::default();
    for end in agent.ends.clone() {
        let mut body = agent.request(end);
        strike(setup, &mut body, outcome.compacted).await;
        let (reply, seen) = setup.ask((PATH, &FIELDS), &body).await;
        outcome.add(&end.to_string(), &reply, &seen);
        let last = seen.last().unwrap();
        let betas = last.headers.get_all("anthropic-beta").iter();
        let has_beta = betas.into_iter().any(|it| it.as_bytes() == BETA.as_bytes());
        assert_eq!(has_beta, holds_compaction(last), "{end}");
        let mut counted = body.clone();
        counted.as_object_mut().unwrap().remove("max_tokens");
        let target = "/v1/messages/count_tokens?beta=true";
        let caller = Caller::of(setup.proxy.address);
        let reply_of_count = caller.ask_at(target, &FIELDS, counted.to_string()).await;
        assert_eq!(reply_of_count.status, 200, "{end}");
        let counted = setup.model.seen().pop().unwrap().verdict;
        assert!(!matches!(counted, Verdict::Broken(_)), "{end}: {counted:?}");
        agent.take(end, &reply.body);
    }
    outcome.orders = setup.orders().len();
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thinking_of_kept_turns_stays() {
    let (mut compacted, mut overtaken) = (0, 0);
    // The AI SDK asks for all that the model writes.
    let cases = [(MODEL, 64_000, 4_000), ("claude-sonnet-5-5", 96_000, 128_000)];
    for (model, window, output) in cases {
        for session in SESSIONS {
            let told = (window / 4 * 3).to_string();
            let told = [("window", &*told)];
            let further = if output > 4_000 { &told[..] } else { &[] };
            let mut setup = Play::start(options(window), further).await;
            let mut agent = agent(session, model);
            agent.set_output(output);
            let outcome = play(&mut setup, &mut agent, async |_, _, _| ()).await;
            if outcome.digests == 0 {
                let lost = (outcome.dropped, outcome.twice, outcome.stripped);
                assert_eq!(lost, (0, 0, 0), "{session} {window}: {outcome:?}");
            }
            compacted += outcome.compacted;
            overtaken += usize::from(outcome.digests > 0);
        }
    }
    println!("{compacted} requests with a block; a result overtook {overtaken} sessions");
    assert!(compacted > 50 && overtaken <= 2, "{compacted} {overtaken}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_order_costs_one_call_and_no_request() {
    use CompactionFault::{Empty, Order};
    let empty = ["max_tokens", "tool_use", "refusal", "end_turn", "model_context_window_exceeded"];
    for fault in empty.map(Empty).into_iter().chain([404, 400, 529].map(Order)) {
        let mut setup = Play::start(options(64_000), &[]).await;
        setup.fail(fault);
        let outcome = play(&mut setup, &mut agent(LONG, MODEL), async |_, _, _| ()).await;
        assert_eq!(outcome.compacted, 0, "{fault:?}: {outcome:?}");
        // The first refusal of thinking behind the digest teaches the rule.
        assert!(outcome.twice <= 1 && outcome.digests > 0, "{fault:?}: {outcome:?}");
        setup.no_call_repeats(&format!("{fault:?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_is_refused_later_gives_way_to_the_digest() {
    for status in [400, 404, 529] {
        let mut setup = Play::start(options(64_000), &[]).await;
        let mut agent = agent(LONG, MODEL);
        let outcome = play(&mut setup, &mut agent, async |setup, _, compacted| {
            if compacted == 5 {
                setup.fail(CompactionFault::Item(status));
            }
        });
        let outcome = outcome.await;
        assert_eq!(outcome.compacted, 5, "{status}: {outcome:?}");
        assert!((1..=2).contains(&outcome.twice), "{status}: {outcome:?}");
        setup.no_call_repeats(&status.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_model_and_a_lost_store_harm_no_request() {
    let mut setup = Play::start(options(64_000), &[]).await;
    let mut requests = 0;
    let mut first = agent(LONG, MODEL);
    let outcome = play(&mut setup, &mut first, async |_, body, compacted| {
        requests += usize::from(compacted >= 5);
        if (1..=5).contains(&requests) {
            body["model"] = json!("claude-opus-5");
        }
    });
    let outcome = outcome.await;
    assert!(outcome.compacted > 5, "{outcome:?}");
    // The text of the block serves the other model.
    let seen = setup.model.seen();
    let body = |it: &SeenRequest| -> Value { serde_json::from_slice(&it.body).unwrap() };
    let other = seen.iter().position(|it| body(it)["model"] == "claude-opus-5").unwrap();
    let block = seen[..other].iter().rfind(|it| holds_compaction(it)).unwrap();
    let block = body(block)["messages"][0]["content"][0]["content"].as_str().unwrap().to_owned();
    let line = json!(block.lines().max_by_key(|line| line.len()).unwrap()).to_string();
    let sent = String::from_utf8_lossy(&seen[other].body);
    assert!(sent.contains(line.trim_matches('"')), "{line} {sent}");
    let mut setup = Play::start(options(64_000), &[]).await;
    let mut is_lost = false;
    let mut second = agent(LONG, MODEL);
    let outcome = play(&mut setup, &mut second, async |setup, _, compacted| {
        if compacted == 5 && !std::mem::replace(&mut is_lost, true) {
            setup.restart().await;
        }
    });
    outcome.await;
}
