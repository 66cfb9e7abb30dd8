//! Shapes of single items and of the body.

use serde_json::Value;

use super::{items, kind, text};
use crate::request::{list, member};

const MAX_STRING_CHARS: usize = 10_485_760;
const MAX_COMPACTION_CHARS: usize = 20_971_520;

/// Prefixes of ids, by the type of the item.
const ID_PREFIXES: [(&str, &str); 9] = [
    ("compaction", "cmp"),
    ("custom_tool_call", "ctc"),
    ("custom_tool_call_output", "ctco"),
    ("function_call", "fc"),
    ("function_call_output", "fco"),
    ("message", "msg"),
    ("reasoning", "rs"),
    ("tool_search_call", "tsc"),
    ("web_search_call", "ws"),
];

pub(super) fn empty(body: &Value) -> Option<String> {
    let input = member(body, "input");
    let is_empty = input.as_str().is_none_or(str::is_empty) && list(input).is_empty();
    let keys = ["conversation", "previous_response_id", "prompt"];
    let has_state = keys.iter().any(|key| !member(body, key).is_null());
    (is_empty && !has_state).then(String::new)
}

pub(super) fn two_histories(body: &Value) -> Option<String> {
    let keys = ["conversation", "previous_response_id"];
    keys.iter().all(|key| !member(body, key).is_null()).then(String::new)
}

pub(super) fn unknown_role(body: &Value) -> Option<String> {
    let known = ["assistant", "developer", "system", "user"];
    let mut messages = items(body).iter().filter(|item| kind(item) == "message");
    let role = |item| text(item, "role").unwrap_or_default();
    let wrong = messages.find(|item| !known.contains(&role(item)))?;
    Some(role(wrong).to_owned())
}

pub(super) fn wrong_assistant_part(body: &Value) -> Option<String> {
    items(body).iter().filter(|item| kind(item) == "message").find_map(|item| {
        let is_model = text(item, "role") == Some("assistant");
        let allowed: &[&str] = if is_model {
            &["output_text", "refusal"]
        } else {
            &["input_text", "input_image", "input_file", "input_audio"]
        };
        let mut kinds = list(member(item, "content")).iter().map(kind);
        let wrong = kinds.find(|name| !allowed.contains(name))?;
        Some(wrong.to_owned())
    })
}

pub(super) fn wrong_output(body: &Value) -> Option<String> {
    let is_wrong = |item: &Value| {
        let output = member(item, "output");
        let allowed = ["input_text", "input_image", "input_file"];
        let parts_fit = output
            .as_array()
            .is_some_and(|parts| parts.iter().all(|part| allowed.contains(&kind(part))));
        matches!(kind(item), "custom_tool_call_output" | "function_call_output")
            && !output.is_string()
            && !parts_fit
    };
    position(body, is_wrong)
}

pub(super) fn wrong_chunk(body: &Value) -> Option<String> {
    let is_chunk = |chunk: &Value| {
        text(chunk, "stdout").is_some()
            && text(chunk, "stderr").is_some()
            && member(chunk, "outcome").is_object()
    };
    position(body, |item| {
        let output = member(item, "output");
        kind(item) == "shell_call_output"
            && !(output.is_array() && list(output).iter().all(is_chunk))
    })
}

pub(super) fn wrong_local_shell(body: &Value) -> Option<String> {
    position(body, |item| kind(item) == "local_shell_call_output" && text(item, "output").is_none())
}

pub(super) fn wrong_screenshot(body: &Value) -> Option<String> {
    position(body, |item| {
        let output = member(item, "output");
        let has_file = text(output, "file_id").is_some();
        // OpenAI answers `Invalid 'input[6].output.image_url'` to words (Cloudgeni-ai/opengeni, pull request 290).
        let has_address = text(output, "image_url").is_some_and(|url| {
            ["https://", "http://", "data:image/"].iter().any(|begin| url.starts_with(begin))
        });
        let is_screenshot = kind(output) == "computer_screenshot" && (has_file || has_address);
        kind(item) == "computer_call_output" && !is_screenshot
    })
}

pub(super) fn wrong_compaction(body: &Value) -> Option<String> {
    position(body, |item| {
        let content = text(item, "encrypted_content");
        let fits = |content: &str| content.chars().count() <= MAX_COMPACTION_CHARS;
        kind(item) == "compaction" && !content.is_some_and(fits)
    })
}

pub(super) fn patch_without_status(body: &Value) -> Option<String> {
    let statuses = [Some("completed"), Some("failed")];
    position(body, |item| {
        kind(item) == "apply_patch_call_output" && !statuses.contains(&text(item, "status"))
    })
}

pub(super) fn long_string(body: &Value) -> Option<String> {
    position(body, |item| {
        let texts = ["output", "content", "arguments", "input"].map(|key| text(item, key));
        texts.into_iter().flatten().any(|text| text.chars().count() > MAX_STRING_CHARS)
    })
}

pub(super) fn wrong_id_prefix(body: &Value) -> Option<String> {
    position(body, |item| {
        let prefix = ID_PREFIXES.iter().find(|(name, _)| *name == kind(item));
        let id = text(item, "id").filter(|id| !id.is_empty());
        prefix.zip(id).is_some_and(|((_, prefix), id)| !id.starts_with(prefix))
    })
}

pub(super) fn small_output(body: &Value) -> Option<String> {
    let limit = member(body, "max_output_tokens").as_u64()?;
    (limit < 16).then(|| limit.to_string())
}

pub(super) fn early_trigger(body: &Value) -> Option<String> {
    let (_, before) = items(body).split_last()?;
    let mut before = before.iter();
    before.any(|item| kind(item) == "compaction_trigger").then(String::new)
}

/// Returns the place of the first item that is wrong.
fn position(body: &Value, is_wrong: impl Fn(&Value) -> bool) -> Option<String> {
    let at = items(body).iter().position(is_wrong)?;
    Some(format!("input[{at}]"))
}
