//! Placeholders in recorded sessions.

use crate::sessions::sessions;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy, PruneTrigger};
use longhaul_core::pruning::placeholder::Placeholder;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::SessionRecording;
use serde_json::Value;

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
    outlook
        .view
        .replacements(&conversation)
        .map_or_else(|| body.to_vec(), |plan| Splice::new(&conversation, &plan).unwrap().apply())
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

#[test]
fn described_placeholders_of_recorded_sessions_are_stable_and_idempotent() {
    let mut placeholders = 0;
    for session in sessions().step_by(4) {
        let replay = SessionRecording::parse(&session.body).unwrap();
        let mut before: Vec<String> = Vec::new();
        for request in replay.requests().step_by(9) {
            let sent = forwarded(&request.body(), Placeholder::Described);
            assert_eq!(sent, forwarded(&sent, Placeholder::Described), "{}", session.name);
            let now = results(&sent);
            for (was, is) in before.iter().zip(&now) {
                let placed = was.starts_with("[Old tool result content cleared");
                assert!(!placed || was == is, "{}: {was}\nand {is}", session.name);
                placeholders += usize::from(placed);
            }
            before = now;
        }
    }
    assert!(placeholders > 0, "none was placed");
}
