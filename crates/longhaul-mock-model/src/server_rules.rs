//! Rules that single servers add to those of an API.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::refusal::RefusalReply;
use crate::request::{Api, list, member};

/// A server with rules of its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ModelServer {
    /// Only the rules of the API.
    #[default]
    Api,
    /// Azure `OpenAI`.
    Azure,
    /// The backend of a `ChatGPT` login.
    ChatGpt,
    /// GitHub Copilot.
    Copilot,
    /// `DeepSeek` with the Messages API.
    DeepSeek,
    /// llama.cpp, with a template that takes one system message and alternating roles.
    LlamaCpp,
    /// A server with the schema of the Messages API before system messages.
    OlderMessages,
}

/// A rule of a server.
struct ServerRule {
    /// The rule's name in the lists of the fixtures.
    id: &'static str,
    server: ModelServer,
    error: &'static str,
    is_broken: fn(&Value) -> bool,
}

const RULES: [ServerRule; 10] = [
    ServerRule {
        id: "r-azure-ids",
        server: ModelServer::Azure,
        error: "Missing required parameter: 'input[1].id'.",
        is_broken: lacks_ids,
    },
    ServerRule {
        id: "r-chatgpt-backend",
        server: ModelServer::ChatGpt,
        error: "Store must be set to false",
        is_broken: unfit_for_login,
    },
    ServerRule {
        id: "r-reasoning-copilot",
        server: ModelServer::Copilot,
        error: "input[1].type \"reasoning\" is not a valid input item type",
        is_broken: |body| items(body).any(|item| kind(item) == "reasoning"),
    },
    ServerRule {
        id: "r-reasoning-llamacpp",
        server: ModelServer::LlamaCpp,
        error: "item['content'] is empty",
        is_broken: plain_reasoning_missing,
    },
    ServerRule {
        id: "r-output-llamacpp",
        server: ModelServer::LlamaCpp,
        error: "Output of tool call should be 'Input text'",
        is_broken: media_in_output,
    },
    ServerRule {
        id: "r-unknown-items",
        server: ModelServer::LlamaCpp,
        error: "unknown input item type",
        is_broken: unknown_item,
    },
    ServerRule {
        id: "r-developer-mid",
        server: ModelServer::LlamaCpp,
        error: "System message must be at the beginning.",
        is_broken: late_instructions,
    },
    ServerRule {
        id: "r-alternation",
        server: ModelServer::LlamaCpp,
        error: "Conversation roles must alternate user/assistant/user/assistant/...",
        is_broken: repeated_user,
    },
    ServerRule {
        id: "m-system-unknown",
        server: ModelServer::OlderMessages,
        error: "messages.1.role: Input should be 'user' or 'assistant'",
        is_broken: |body| list(member(body, "messages")).iter().any(is_system),
    },
    ServerRule {
        id: "m-thinking-deepseek",
        server: ModelServer::DeepSeek,
        error: "The `content[].thinking` in the thinking mode must be passed back to the API.",
        is_broken: call_without_thinking,
    },
];

/// Returns the rule of this server that a body breaks, and the refusal for it.
pub(crate) fn judge(
    server: ModelServer,
    api: Api,
    body: &Value,
) -> Option<(&'static str, RefusalReply)> {
    let own = RULES.iter().filter(|rule| rule.server == server);
    let rule = own.into_iter().find(|rule| (rule.is_broken)(body))?;
    let error = json!({"message": rule.error, "type": "invalid_request_error"});
    let error = match api {
        Api::Messages => json!({"type": "error", "error": error}),
        Api::ChatCompletions | Api::Responses => json!({"error": error}),
    };
    let refusal = RefusalReply::new(400, "application/json", error.to_string());
    Some((rule.id, refusal))
}

/// Returns the ids of the rules of all servers that a body breaks.
pub fn broken_server_rules(body: &Value) -> Vec<&'static str> {
    let broken = RULES.iter().filter(|rule| (rule.is_broken)(body));
    broken.map(|rule| rule.id).collect()
}

/// Returns the ids of the rules of all servers.
pub fn server_rule_ids() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.id)
}

fn items(body: &Value) -> impl Iterator<Item = &Value> {
    list(member(body, "input")).iter()
}

fn kind(item: &Value) -> &str {
    let named = member(item, "type").as_str();
    let has_role = member(item, "role").is_string();
    named.unwrap_or(if has_role { "message" } else { "" })
}

/// The role of the message that a chat template makes of an item.
fn role(item: &Value) -> &str {
    match (kind(item), member(item, "role").as_str()) {
        ("message", Some("developer" | "system")) => "system",
        ("message", Some(role)) => role,
        (kind, _) if kind.ends_with("_output") => "tool",
        _ => "assistant",
    }
}

/// An item of the model has no id, or nothing is stored.
fn lacks_ids(body: &Value) -> bool {
    let is_stored = member(body, "store").as_bool() != Some(false);
    let mut own = items(body).filter(|item| role(item) == "assistant");
    let lacks = own.any(|item| !member(item, "id").is_string());
    member(body, "input").is_array() && (lacks || !is_stored)
}

fn unfit_for_login(body: &Value) -> bool {
    const REFUSED: [&str; 2] = ["max_output_tokens", "previous_response_id"];
    let is = |key: &str, value: bool| member(body, key).as_bool() == Some(value);
    !member(body, "input").is_null()
        && (!is("store", false)
            || !is("stream", true)
            || !member(body, "instructions").is_string()
            || REFUSED.iter().any(|key| !member(body, key).is_null()))
}

fn plain_reasoning_missing(body: &Value) -> bool {
    let mut reasoning = items(body).filter(|item| kind(item) == "reasoning");
    reasoning.any(|item| {
        let first = list(member(item, "content")).first();
        !first.is_some_and(|part| member(part, "text").is_string())
    })
}

fn media_in_output(body: &Value) -> bool {
    let mut parts = items(body).flat_map(|item| {
        let allowed: &[&str] = match role(item) {
            "tool" => &["input_text"],
            "system" | "user" => &["input_image", "input_text"],
            _ => &["output_text", "reasoning_text", "refusal"],
        };
        let holders = [member(item, "content"), member(item, "output")];
        let parts = holders.into_iter().flat_map(list);
        parts.map(move |part| (allowed, kind(part)))
    });
    parts.any(|(allowed, kind)| !allowed.contains(&kind))
}

fn unknown_item(body: &Value) -> bool {
    const KNOWN: [&str; 4] = ["function_call", "function_call_output", "message", "reasoning"];
    items(body).any(|item| !KNOWN.contains(&kind(item)))
}

/// A system or developer message follows another message.
fn late_instructions(body: &Value) -> bool {
    let behind = items(body).skip_while(|item| role(item) == "system");
    behind.into_iter().any(|item| role(item) == "system")
}

/// Two user messages stand in a row.
fn repeated_user(body: &Value) -> bool {
    let mut roles = items(body).map(role).filter(|role| *role != "system").peekable();
    while let Some(role) = roles.next() {
        if role == "user" && roles.peek() == Some(&"user") {
            return true;
        }
    }
    false
}

fn is_system(message: &Value) -> bool {
    member(message, "role") == "system"
}

/// Thinking is on, and an assistant's message calls a tool without it.
fn call_without_thinking(body: &Value) -> bool {
    let is_on = matches!(kind(member(body, "thinking")), "adaptive" | "between_tools" | "enabled");
    let mut messages = list(member(body, "messages")).iter();
    is_on
        && messages.any(|message| {
            let kinds: HashSet<&str> = list(member(message, "content")).iter().map(kind).collect();
            kinds.contains("tool_use")
                && !kinds.contains("thinking")
                && !kinds.contains("redacted_thinking")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_breach_and_accepts_the_rest() {
        let call = |more: &str| {
            format!(
                r#"{{"instructions":"i","store":false,"stream":true,"input":[{{"role":"user","content":"a"}},
                {{"type":"function_call","call_id":"c","name":"f","arguments":"{{}}"}},
                {{"type":"function_call_output","call_id":"c","output":"b"}}{more}]}}"#
            )
        };
        let user = r#"{"role":"user","content":[{"type":"input_text","text":"a"}]}"#;
        let reasoning = r#"{"type":"reasoning","summary":[]}"#;
        let asked = r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#;
        let turn = |before: &str| {
            format!(
                r#"{{"thinking":{{"type":"enabled"}},"messages":[{{"role":"user","content":"a"}},{{"role":"assistant",
                "content":[{before}{asked}]}}]}}"#
            )
        };
        for (body, expect) in [
            (call(""), vec!["r-azure-ids"]),
            (
                call("").replace(r#""stream":true"#, r#""stream":true,"max_output_tokens":9"#),
                vec!["r-azure-ids", "r-chatgpt-backend"],
            ),
            (
                call("")
                    .replace(r#""store":false"#, r#""store":true"#)
                    .replace(r#""call_id":"c","name""#, r#""call_id":"c","id":"fc_1","name""#),
                vec!["r-chatgpt-backend"],
            ),
            (
                call(&format!(",{reasoning}")),
                vec!["r-azure-ids", "r-reasoning-copilot", "r-reasoning-llamacpp"],
            ),
            (
                call("").replace(r#""output":"b""#, r#""output":[{"type":"input_file"}]"#),
                vec!["r-azure-ids", "r-output-llamacpp"],
            ),
            (call(r#",{"type":"compaction_trigger"}"#), vec!["r-azure-ids", "r-unknown-items"]),
            (
                call(r#",{"role":"developer","content":"d"}"#),
                vec!["r-azure-ids", "r-developer-mid"],
            ),
            (call(&format!(",{user},{user}")), vec!["r-azure-ids", "r-alternation"]),
            (turn(r#"{"type":"thinking","thinking":"t"},"#), vec![]),
            (turn(""), vec!["m-thinking-deepseek"]),
            (
                r#"{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}"#
                    .to_owned(),
                vec!["m-system-unknown"],
            ),
        ] {
            let parsed: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(broken_server_rules(&parsed), expect, "{body}");
        }
    }
}
