//! Conversations that Claude Code compacted itself: its summary, and results that it cleared.

use longhaul_mock_model::Verdict;
use serde_json::{Value, json};

use super::proxied::{STANDS_FOR_HISTORY, Setup, request};
use super::subject::sessions;

/// First words of the summary that Claude Code writes.
const OWN_SUMMARY: &str = "This session is being continued from a previous conversation";
/// Claude Code writes the text that longhaul writes too.
const CLEARED: &str = "[Old tool result content cleared]";
/// Newest results that Claude Code keeps.
const KEPT_RESULTS: usize = 5;

fn named(name: &str) -> Value {
    let (_, body) = sessions().into_iter().find(|(found, _)| found.starts_with(name)).unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["max_tokens"] = json!(4_000);
    body.as_object_mut().unwrap().remove("thinking");
    body
}

/// Returns the ends of a session's requests.
fn ends(session: &Value) -> Vec<usize> {
    let messages = session["messages"].as_array().unwrap();
    let ends = (1..=messages.len()).filter(|end| messages[end - 1]["role"] == "user");
    ends.collect()
}

#[tokio::test]
async fn a_summary_of_claude_code_stands_in_full_before_that_of_longhaul() {
    for (name, window) in [("cli-0c275b1b", 60_000), ("oh-my-posh-6b6f4218", 100_000)] {
        let setup = Setup::start(window, |_| ()).await;
        let session = named(name);
        let own = session["messages"][0]["content"][1].clone();
        assert!(own.to_string().contains(OWN_SUMMARY));
        let mut compacted = 0;
        for end in ends(&session).into_iter().rev().take(3) {
            let reply = setup.ask(&request(&session, end)).await;
            assert_eq!(reply.status, 200, "{name} {end}");
            let sent: Value = serde_json::from_slice(&setup.last().body).unwrap();
            assert_eq!(sent["messages"][0]["content"][1], own, "{name} {end}");
            let count = sent.to_string().matches(STANDS_FOR_HISTORY).count();
            assert!(count <= 1, "{name} {end}: {count}");
            compacted += count;
        }
        assert!(compacted > 0, "{name}");
        let seen = setup.model.seen();
        assert!(seen.iter().all(|it| !matches!(it.verdict, Verdict::Broken(_))));
    }
}

/// Clears the results of a request as Claude Code does after an hour without a request.
fn microcompact(body: &mut Value) -> usize {
    let messages = body["messages"].as_array_mut().unwrap();
    let blocks = messages.iter_mut().rev().flat_map(|message| {
        let blocks = message["content"].as_array_mut().into_iter().flatten();
        blocks.rev()
    });
    let results =
        blocks.filter(|block| block["type"] == "tool_result" && block["content"].is_string());
    let mut count = 0;
    for result in results.skip(KEPT_RESULTS) {
        result["content"] = json!(CLEARED);
        count += 1;
    }
    count
}

#[tokio::test]
async fn a_conversation_goes_on_after_claude_code_cleared_its_results() {
    for window in [48_000, 100_000] {
        let setup = Setup::start(window, |_| ()).await;
        let mut session = named("cli-3a782158");
        let ends = ends(&session);
        let middle = ends.len() / 2;
        let mut cleared = 0;
        for (turn, &end) in ends.iter().enumerate().step_by(4) {
            if turn >= middle && cleared == 0 {
                let mut before = request(&session, end);
                cleared = microcompact(&mut before);
                for (old, new) in before["messages"].as_array().unwrap().iter().enumerate() {
                    session["messages"][old] = new.clone();
                }
            }
            let body = request(&session, end);
            let reply = setup.ask(&body).await;
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            assert_eq!(reply.status, 200, "{window} {end}: {text}");
            let seen = setup.last();
            assert_eq!(seen.verdict, Verdict::Accepted, "{window} {end}");
            assert!(seen.body.len() <= body.to_string().len());
        }
        assert!(cleared > 10, "{cleared}");
        let seen = setup.model.seen();
        assert!(seen.iter().all(|it| !matches!(it.verdict, Verdict::Broken(_))));
        // What the client cleared is neither described nor cleared again.
        let last = String::from_utf8(setup.last().body.to_vec()).unwrap();
        assert!(!last.contains("[Old tool result content cleared]\\n"), "{window}");
    }
}

#[tokio::test]
async fn a_compaction_that_claude_code_orders_gets_no_summary_of_longhaul() {
    let setup = Setup::start(64_000, |config| config.compaction.proactive = true).await;
    let session = named("cli-3a782158");
    let ends = ends(&session);
    // The longest request that fits, with the order after its results.
    let fits = |end: &&usize| request(&session, **end).to_string().len() < 64_000 * 5 / 2;
    let end = *ends.iter().rev().find(fits).unwrap();
    let mut body = request(&session, end);
    let order = json!({"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the conversation so far."});
    let last = body["messages"].as_array_mut().unwrap().last_mut().unwrap();
    match last["content"].as_array_mut() {
        Some(blocks) => blocks.push(order),
        None => last["content"] = json!([{"type": "text", "text": last["content"]}, order]),
    }
    let reply = setup.ask(&body).await;
    assert_eq!(reply.status, 200);
    let sent = String::from_utf8(setup.last().body.to_vec()).unwrap();
    assert!(!sent.contains(STANDS_FOR_HISTORY));
    assert!(sent.contains("Your task is to create a detailed summary"));
}
