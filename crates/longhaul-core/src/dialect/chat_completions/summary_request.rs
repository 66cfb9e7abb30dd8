//! Request bodies of summary calls.

use crate::dialect::chat_completions::writer::user_message;
use crate::dialect::request_template::RequestTemplate;
use crate::dialect::summary_members::{
    client_members, models_without_search, object, repeat_members,
};
use crate::json::quote::quote;
use crate::json::scanner::values_after;
use crate::units::tokens::Tokens;

pub(in crate::dialect) fn body(
    template: &RequestTemplate<'_>,
    system: &str,
    user: &str,
    output: Tokens,
) -> String {
    let sent = template.conversation.body();
    let mut body = client_members(template, output);
    let mut push = |key: &str, value: &str| body.extend([key, ":", value, ","]);
    // If the client requests usage, the upstream supports the option.
    let mut usage = values_after(sent, "\"include_usage\"");
    if template.is_own_endpoint && usage.any(|value| value.starts_with("true")) {
        push("\"stream_options\"", "{\"include_usage\":true}");
    }
    body.extend([
        "\"stream\":true,\"messages\":[{\"role\":\"system\",\"content\":",
        &quote(system),
        "},",
        &user_message(&quote(user)),
        "]}",
    ]);
    body
}

/// See [`Dialect::compaction_order`](crate::dialect::Dialect::compaction_order).
/// The API has none.
pub(in crate::dialect) fn compaction_order(_: &str, _: usize) -> Option<String> {
    None
}

pub(in crate::dialect) fn append_prompt(
    forwarded: &str,
    upto: usize,
    prompt: &str,
    output: Tokens,
) -> Option<String> {
    let repeated = include_str!("repeated_keys.txt");
    let set = [("stream", "true")];
    let members = repeat_members(forwarded, repeated, &set, |name, value| {
        Some(match name {
            "messages" => {
                let messages = forwarded.get(value.start()..upto).unwrap_or_default();
                format!("{messages},{}]", user_message(prompt))
            }
            "model" | "models" => models_without_search(value.slice(forwarded)).into_owned(),
            "max_tokens" | "max_completion_tokens" => output.to_string(),
            _ => return None,
        })
    })?;
    Some(object(&members))
}
