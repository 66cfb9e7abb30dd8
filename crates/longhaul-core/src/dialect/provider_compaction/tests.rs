//! Models and requests that a provider compacts.

use super::*;

#[test]
fn name_and_api_of_a_model_show_whether_its_provider_compacts() {
    for (model, api, expect) in [
        ("gpt-6.2-sol", "input", true),
        ("openai/gpt-5.6-luna", "input", true),
        ("gpt-5.4", "input", false),
        ("gpt-6.2-sol", "messages", false),
        ("claude-opus-5-5", "messages", true),
        ("anthropic/claude-sonnet-4.6", "messages", true),
        ("claude-opus-4-5-20251101", "messages", false),
        ("claude-haiku-5-5", "messages", false),
        ("claude-opus-5-5", "input", false),
        ("our-alias", "input", false),
    ] {
        let body = format!(r#"{{"model":"{model}","system":"s","{api}":[]}}"#);
        let conversation = Dialect::read_any(body.as_bytes()).unwrap();
        assert_eq!(conversation.is_compacted_by_provider(), expect, "{model} {api}");
    }
}

#[test]
fn requests_with_another_compaction_or_a_budget_are_not_compacted() {
    for member in [
        r#""output_config":{"task_budget":{"remaining":5}}"#,
        r#""context_management":{"edits":[{"type":"compact_20260112"}]}"#,
        r#""context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}"#,
    ] {
        let body = format!(r#"{{"model":"claude-opus-5-5",{member},"messages":[]}}"#);
        let conversation = Dialect::Messages.read(body.as_bytes()).unwrap();
        assert!(!conversation.is_compacted_by_provider(), "{member}");
    }
}
