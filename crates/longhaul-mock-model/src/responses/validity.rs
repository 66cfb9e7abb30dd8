//! Rules for an input of the Responses API, each with the error text of the provider that enforces it.

mod issued;
mod pairing;
mod reasoning;
mod servers;
mod shape;

pub use reasoning::torn_from_reasoning;

use serde_json::{Value, json};

use crate::refusal::RefusalReply;
use crate::request::{ChatBody, list, member};
use crate::responses::issued::is_foreign;

/// A rule for a request body.
pub(crate) struct InputRule {
    /// The rule's name in `fixtures/responses_validity.json`.
    pub(crate) id: &'static str,
    /// The error text, with `<what>` in place of the offending item.
    error: &'static str,
    /// Returns the item that breaks the rule, if any.
    breach: fn(&Value) -> Option<String>,
}

/// The rules, in the order of evaluation.
pub(crate) const INPUT_RULES: [InputRule; 29] = [
    InputRule {
        id: "r-not-empty",
        error: "One of \"input\" or \"previous_response_id\"or 'prompt'or 'conversation_id' must be provided.",
        breach: shape::empty,
    },
    InputRule {
        id: "r-roles",
        error: "Invalid value: '<what>'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
        breach: shape::unknown_role,
    },
    InputRule {
        id: "r-assistant-parts",
        error: "Invalid value: '<what>'. Supported values are: 'output_text' and 'refusal'.",
        breach: shape::wrong_assistant_part,
    },
    InputRule {
        id: "r-output-shape",
        error: "Invalid type for '<what>.output': expected a string or an array of parts.",
        breach: shape::wrong_output,
    },
    InputRule {
        id: "r-shell-output",
        error: "Missing required parameter: '<what>.output[0].outcome'.",
        breach: shape::wrong_chunk,
    },
    InputRule {
        id: "r-apply-patch-output",
        error: "Missing required parameter: '<what>.status'.",
        breach: shape::patch_without_status,
    },
    InputRule {
        id: "r-string-limit",
        error: "Invalid '<what>': string too long. Expected a string with maximum length 10485760.",
        breach: shape::long_string,
    },
    InputRule {
        id: "r-id-prefix",
        error: "Invalid '<what>.id'. Expected an ID that begins with the prefix of its type.",
        breach: shape::wrong_id_prefix,
    },
    InputRule {
        id: "r-max-output",
        error: "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got <what> instead.",
        breach: shape::small_output,
    },
    InputRule {
        id: "r-call-id",
        error: "Invalid '<what>.call_id': string too long. Expected a string with maximum length 64.",
        breach: pairing::wrong_call_id,
    },
    InputRule {
        id: "r-duplicate",
        error: "Duplicate item found with id <what>. Remove duplicate items from your input and try again.",
        breach: pairing::duplicate,
    },
    InputRule {
        id: "r-pair-fwd",
        error: "No tool output found for function call <what>.",
        breach: pairing::unanswered_call,
    },
    InputRule {
        id: "r-pair-back",
        error: "No tool call found for function call output with call_id <what>.",
        breach: pairing::orphaned_output,
    },
    InputRule {
        id: "r-tool-search",
        error: "Tool '<what>' is not defined.",
        breach: pairing::undefined_tool,
    },
    InputRule {
        id: "r-compaction-trigger",
        error: "'compaction_trigger' must be the last item.",
        breach: shape::early_trigger,
    },
    InputRule {
        id: "r-reasoning-shape",
        error: "Input[<what>] missing required field `summary`",
        breach: reasoning::without_summary,
    },
    InputRule {
        id: "r-reasoning-follow",
        error: "Item '<what>' of type 'reasoning' was provided without its required following item.",
        breach: reasoning::without_following,
    },
    InputRule {
        id: "r-reasoning-precede",
        error: "Item '<what>' was provided without its required 'reasoning' item.",
        breach: issued::without_reasoning,
    },
    InputRule {
        id: "r-encrypted",
        error: "The encrypted content <what>... could not be verified.",
        breach: issued::unreadable,
    },
    InputRule {
        id: "r-store-ids",
        error: "Item with id '<what>' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.",
        breach: issued::not_stored,
    },
    InputRule {
        id: "r-local-shell",
        error: "Invalid type for '<what>.output': expected a string.",
        breach: shape::wrong_local_shell,
    },
    InputRule {
        id: "r-computer-output",
        error: "Invalid type for '<what>.output': expected a computer_screenshot.",
        breach: shape::wrong_screenshot,
    },
    InputRule {
        id: "r-mcp-one-item",
        error: "No approval request found for '<what>'.",
        breach: pairing::unrequested_approval,
    },
    InputRule {
        id: "r-program",
        error: "No program found for the caller of '<what>'.",
        breach: pairing::without_program,
    },
    InputRule {
        id: "r-compaction-item",
        error: "Missing required parameter: '<what>.encrypted_content'.",
        breach: shape::wrong_compaction,
    },
    InputRule {
        id: "r-context-management",
        error: "Invalid 'context_management[0].compact_threshold': integer below minimum value.",
        breach: servers::small_threshold,
    },
    InputRule {
        id: "r-instructions",
        error: "Invalid type for 'instructions': expected a string.",
        breach: servers::wrong_instructions,
    },
    InputRule {
        id: "r-breakpoint",
        error: "Invalid value: '<what>.prompt_cache_breakpoint'.",
        breach: servers::wrong_breakpoint,
    },
    InputRule {
        id: "r-conversation",
        error: "Mutually exclusive parameters: 'conversation' and 'previous_response_id'.",
        breach: shape::two_histories,
    },
];

/// Rules of `fixtures/responses_validity.json` that no request can break, with the reason.
pub const UNCHECKED_INPUT_RULES: [(&str, &str); 1] =
    [("r-ws", "frames of a WebSocket: longhaul refuses the upgrade, or carries the frames unread")];

/// Returns the refusal of encrypted reasoning that another caller received.
pub(crate) fn judge_caller(chat: &ChatBody) -> Option<(&'static str, RefusalReply)> {
    let mut contents =
        items(chat.original()).iter().filter_map(|item| text(item, "encrypted_content"));
    let is_foreign = contents.any(|content| is_foreign(chat.credential(), content));
    is_foreign.then(|| {
        let message = "reasoning `encrypted_content` was not issued to this caller";
        (ENCRYPTED_CALLER, refusal(message))
    })
}

/// The rule that [`judge_caller`] checks.
pub(crate) const ENCRYPTED_CALLER: &str = "r-encrypted-caller";

fn refusal(message: &str) -> RefusalReply {
    let error = json!({"error": {"message": message, "type": "invalid_request_error",
        "param": "input", "code": null}});
    RefusalReply::new(400, "application/json", error.to_string())
}

/// Returns the first rule that a body breaks, and the refusal for it. `rendered` is the body without the
/// reasoning that the model dropped.
///
/// nc-o-ids: an item may stand without reasoning that was dropped, and dropped reasoning without its item.
pub(crate) fn judge(
    body: &Value,
    rendered: &Value,
    waived: &[&str],
) -> Option<(&'static str, RefusalReply)> {
    let rules = INPUT_RULES.iter().filter(|rule| !waived.contains(&rule.id));
    rules.into_iter().find_map(|rule| {
        let is_of_rendered = rule.id == "r-reasoning-follow";
        let what = (rule.breach)(if is_of_rendered { rendered } else { body })?;
        let message = rule.error.replace("<what>", &what);
        Some((rule.id, refusal(&message)))
    })
}

/// Returns the ids of every rule that a body breaks.
pub fn broken_input_rules(body: &[u8]) -> Vec<&'static str> {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return vec!["r-not-empty"];
    };
    let broken = INPUT_RULES.iter().filter(|rule| (rule.breach)(&body).is_some());
    broken.map(|rule| rule.id).collect()
}

/// Returns the ids of every rule that is checked.
pub fn input_rule_ids() -> impl Iterator<Item = &'static str> {
    let rules = INPUT_RULES.iter().map(|rule| rule.id);
    rules.chain([ENCRYPTED_CALLER])
}

fn items(body: &Value) -> &[Value] {
    list(member(body, "input"))
}

fn kind(item: &Value) -> &str {
    let named = member(item, "type").as_str();
    let has_role = || member(item, "role").as_str().map(|_| "message");
    named.or_else(has_role).unwrap_or("item_reference")
}

fn text<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    member(item, key).as_str()
}

/// Whether the provider has history that the body does not hold.
fn has_stored_history(body: &Value) -> bool {
    let keys = ["conversation", "previous_response_id", "prompt"];
    keys.iter().any(|key| !member(body, key).is_null())
        || items(body).iter().any(|item| kind(item) == "item_reference")
}

#[cfg(test)]
mod tests;
