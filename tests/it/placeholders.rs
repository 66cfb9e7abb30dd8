//! Placeholders that list the identifiers of the text they replace.

use crate::sessions::sessions;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy, PruneTrigger};
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::SessionRecording;
use serde_json::{Value, json};

fn policy(placeholder: Placeholder) -> Policy {
    let wishes = CompactionSettings {
        prune_trigger: Some(PruneTrigger::Always),
        protect: Some(Tokens::new(4_000)),
        minimum: Some(Tokens::new(2_000)),
        user_turns: Some(0),
        placeholder: Some(placeholder),
        proactive: false,
        ..CompactionSettings::default()
    };
    Policy::new(&wishes, Tokens::new(200_000))
}

/// Returns the body forwarded for `body`.
fn forwarded(body: &[u8], placeholder: Placeholder) -> Vec<u8> {
    let conversation = read(body).unwrap();
    let (policy, known) = (policy(placeholder), PriorRecords::default());
    let outlook = plan(&conversation, &policy, &known, SummarySource::Digest);
    outlook.view.replacements(&conversation).map_or_else(
        || body.to_vec(),
        |plan| Splice::new(&conversation, &plan).unwrap().apply(),
    )
}

/// Returns the texts of all tool results of `body`.
fn results(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let tools = messages.filter(|message| message["role"] == "tool");
    tools
        .map(|message| {
            let content = &message["content"];
            let text = content.as_str().or_else(|| content[0]["text"].as_str());
            text.unwrap_or_default().to_owned()
        })
        .collect()
}

/// Builds a chat with a result of `text` that is cleared, and another that is not.
fn talk(text: &str) -> Vec<u8> {
    let call = |id: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
            "function": {"name": "read", "arguments": "{\"path\":\"src/a.rs\"}"}}]})
    };
    let answer =
        |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let new = "y".repeat(40_000);
    let messages = [
        json!({"role": "user", "content": "go"}),
        call("1"),
        answer("1", text),
        call("2"),
        answer("2", &new),
        call("3"),
        answer("3", "end"),
    ];
    json!({"model": "m", "messages": messages})
        .to_string()
        .into_bytes()
}

#[test]
fn index_placeholder_keeps_call_and_identifiers_in_a_tenth_of_the_size() {
    let filler = "some words that nobody needs to see a second time\n".repeat(800);
    let text = format!("{filler}DATABASE_URL=postgres://db/main\n{filler}see lib/store/keys.rs");
    let cleared = &results(&forwarded(&talk(&text), Placeholder::Index))[0];
    let described = "[Old tool result content cleared: read src/a.rs, about 20013 tokens";
    assert!(cleared.starts_with(described), "{cleared}");
    assert!(
        cleared.contains("DATABASE_URL=postgres://db/main"),
        "{cleared}"
    );
    assert!(cleared.contains("lib/store/keys.rs"), "{cleared}");
    assert!(
        cleared.len() <= described.len() + text.len() / 10,
        "{cleared}"
    );
}

#[test]
fn result_without_identifiers_gets_the_described_placeholder() {
    let words = "nothing in here has a name\n".repeat(2_000);
    assert_eq!(
        results(&forwarded(&talk(&words), Placeholder::Index))[0],
        results(&forwarded(&talk(&words), Placeholder::Described))[0],
    );
}

#[test]
fn index_placeholders_of_recorded_sessions_are_stable_and_idempotent() {
    let mut with_names = 0;
    for session in sessions().step_by(4) {
        let replay = SessionRecording::parse(&session.body).unwrap();
        let mut before: Vec<String> = Vec::new();
        for request in replay.requests().step_by(9) {
            let sent = forwarded(&request.body(), Placeholder::Index);
            assert_eq!(
                sent,
                forwarded(&sent, Placeholder::Index),
                "{}",
                session.name
            );
            let now = results(&sent);
            for (was, is) in before.iter().zip(&now) {
                let placed = was.starts_with("[Old tool result content cleared");
                assert!(!placed || was == is, "{}: {was}\nand {is}", session.name);
                with_names += usize::from(placed && was.contains("\n## Identifiers\n"));
            }
            before = now;
        }
    }
    assert!(with_names > 0, "none had identifiers");
}
