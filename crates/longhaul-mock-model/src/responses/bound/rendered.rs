//! The parts of a request that the provider renders, in order.

use serde_json::{Value, json};

use crate::binding::models::{PREFIX_RULE, is_gpt_from};
use crate::binding::{Part, Prompt, Unit, hash, link};
use crate::request::{ChatBody, list, member, role};

/// nc-o-prefix: members of an item that are not rendered.
const UNRENDERED: [&str; 2] = ["id", "status"];
/// A mark of the prompt cache on a part of an item.
const CACHE_MARK: &str = "prompt_cache_breakpoint";
/// Items that the client makes, besides messages and outputs.
const CLIENT_ITEMS: [&str; 3] = ["additional_tools", "compaction_trigger", "configuration_update"];
/// The order of a compaction, which is not a part of what the compaction covers.
const TRIGGER: &str = "compaction_trigger";

/// Returns a request of the Responses API as the provider renders it.
pub(crate) fn prompt(chat: &ChatBody) -> Prompt {
    let sent = chat.original();
    let input = member(sent, "input");
    let said = input.as_str().map(|text| json!({"role": "user", "content": text}));
    let items = said.as_slice().iter().chain(list(input)).enumerate();
    let items = items.filter(|(_, item)| kind(item) != TRIGGER);
    Prompt {
        start: start(sent, is_gpt_from(chat.model(), PREFIX_RULE)),
        caller: chat.caller_number(),
        model: chat.model().to_owned(),
        units: items.map(|(at, item)| unit(at, item)).collect(),
    }
}

/// Returns the hash of everything before the input: the tools and the format of the text.
///
/// nc-o-instructions: from GPT-6.2 on, instructions stand behind the input.
fn start(sent: &Value, is_behind: bool) -> u64 {
    let tools = hash(&json!(list(member(sent, "tools"))), &[]);
    let format = member(member(sent, "text"), "format");
    let plain = json!({"type": "text"});
    let format = hash(if *format == plain { &Value::Null } else { format }, &[]);
    let start = link(tools, format);
    if is_behind { start } else { link(start, hash(member(sent, "instructions"), &[])) }
}

fn unit(at: usize, item: &Value) -> Unit {
    let id = member(item, "id").as_str().map(str::to_owned);
    let sealed = member(item, "encrypted_content").as_str().map(str::to_owned);
    let name = sealed.or_else(|| id.clone());
    let part = match (kind(item), name) {
        ("compaction" | "compaction_summary", name) => Part::Compaction(name),
        ("reasoning", Some(name)) => Part::Reasoning(name),
        _ => Part::Other,
    };
    Unit {
        part,
        hash: item_hash(item),
        is_made: is_made(item),
        role: role(item).to_owned(),
        place: (at, 0),
        id,
    }
}

fn item_hash(item: &Value) -> u64 {
    let mut item = item.clone();
    if let Some(members) = item.as_object_mut() {
        members.retain(|name, _| !UNRENDERED.contains(&name.as_str()));
        if members.contains_key("role") {
            members.entry("type").or_insert_with(|| json!("message"));
        }
        let is_made = members.get("role").is_some_and(|role| role == "assistant");
        let part = if is_made { "output_text" } else { "input_text" };
        if let Some(text) = members.get_mut("content").filter(|content| content.is_string()) {
            *text = json!([{"type": part, "text": text}]);
        }
    }
    hash(&item, &[CACHE_MARK, "annotations", "logprobs"])
}

fn kind(item: &Value) -> &str {
    member(item, "type").as_str().unwrap_or("message")
}

/// Whether the model made an item.
fn is_made(item: &Value) -> bool {
    let kind = kind(item);
    role(item) == "assistant"
        || kind != "message" && !kind.ends_with("_output") && !CLIENT_ITEMS.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// nc-o-instructions.
    #[test]
    fn instructions_stand_before_the_input_only_on_earlier_models() {
        let [one, other] = ["a", "b"].map(|text| json!({"instructions": text, "input": "go"}));
        assert_eq!(start(&one, true), start(&other, true));
        assert_ne!(start(&one, false), start(&other, false));
    }

    /// nc-o-prefix.
    #[test]
    fn ids_states_and_spelling_are_not_rendered() {
        let item = json!({"type": "message", "role": "user", "content": "go"});
        for (other, is_same) in [
            (json!({"role": "user", "content": "go"}), true),
            (json!({"role": "user", "id": "msg_1", "status": "completed", "content": "go"}), true),
            (json!({"role": "user", "content": [{"text": "go", "type": "input_text"}]}), true),
            (json!({"role": "developer", "content": "go"}), false),
            (json!({"role": "user", "content": "stop"}), false),
        ] {
            assert_eq!(item_hash(&item) == item_hash(&other), is_same, "{other}");
        }
    }
}
