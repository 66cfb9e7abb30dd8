//! Tests for recent conversations, and for concurrent requests of one conversation.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;

/// Builds a conversation that reads `reads` files, one per step.
fn body(reads: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    for at in 0..reads {
        let arguments = json!({"path": format!("{at}.rs")}).to_string();
        let function = json!({"name": "read", "arguments": arguments});
        let call = json!({"id": at.to_string(), "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": at.to_string(), "content": "text"}));
    }
    json!({"model": "m", "messages": messages}).to_string()
}

/// Calls `then` with a request of a conversation of `reads` reads, with a summary.
fn arrival<T>(reads: usize, then: impl FnOnce(DashboardRequest<'_>) -> T) -> T {
    let body = body(reads);
    let conversation = read(body.as_bytes()).unwrap();
    then(DashboardRequest {
        conversation: &conversation,
        prefix_keys: &PrefixKeys::new(&conversation, Scope::new(&[7; 32], &[])),
        window: Tokens::new(1_000),
        summary: Some("summary".into()),
        may_compact: true,
        cached_price: None,
        agent: "agent".into(),
        session: "session".into(),
        caller: "caller".into(),
    })
}

fn arrive(recent: &Arc<RecentConversations>, reads: usize) {
    assert!(arrival(reads, |arrival| recent.record_request(arrival)).is_some());
}

fn shown() -> Arc<RecentConversations> {
    let recent = Arc::<RecentConversations>::default();
    recent.enable();
    recent
}

/// Returns the details of the only conversation.
fn told(recent: &RecentConversations) -> Value {
    let [told] = recent.changes_since(0).conversations.try_into().unwrap();
    serde_json::to_value(recent.details(&told.id, 0)).unwrap()
}

#[test]
fn records_nothing_while_the_dashboard_is_disabled() {
    let recent = Arc::<RecentConversations>::default();
    assert!(arrival(1, |arrival| recent.record_request(arrival)).is_none());
    recent.enable();
    assert!(recent.changes_since(0).conversations.is_empty());
}

#[test]
fn request_in_progress_does_not_restore_a_hidden_summary() {
    let recent = shown();
    arrive(&recent, 1);
    assert_eq!(told(&recent)["summary"], "summary");
    recent.set_content_visible(false);
    assert!(told(&recent).get("summary").is_none());
    arrive(&recent, 1);
    assert!(told(&recent).get("summary").is_none());
    recent.set_content_visible(true);
    arrive(&recent, 1);
    assert_eq!(told(&recent)["summary"], "summary");
}
