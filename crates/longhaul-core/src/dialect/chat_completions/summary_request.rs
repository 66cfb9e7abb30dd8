//! Request bodies of summary calls.

use crate::dialect::chat_completions::writer::user_message;
use crate::dialect::request_template::RequestTemplate;
use crate::json::quote::quote;
use crate::json::scanner::{NotJson, Scanner};
use crate::units::tokens::Tokens;

/// Keys of the client's request that are dropped because they would spoil a summary. They request
/// extra choices, stop sequences, output formats, forced tool calls, paid searches, and output that
/// longhaul does not read. `stream_options` stays, so that the cost is known.
const DROPPED_KEYS: [&str; 10] = [
    "function_call",
    "logprobs",
    "n",
    "plugins",
    "prediction",
    "response_format",
    "stop",
    "tool_choice",
    "top_logprobs",
    "web_search_options",
];

/// See [`Dialect::summary_request`](crate::dialect::Dialect::summary_request).
pub(in crate::dialect) fn body(
    template: &RequestTemplate<'_>,
    system: &str,
    user: &str,
    output: Tokens,
) -> String {
    let (client, other_model) = (template.conversation, template.other_model);
    let (params, sent) = (client.params(), client.body());
    let mut body = String::from("{");
    let mut push = |key: &str, value: &str| body.extend([key, ":", value, ","]);
    match (other_model, params.model) {
        (Some(model), _) => push("\"model\"", &quote(model)),
        (None, Some(model)) => push("\"model\"", model.span().slice(sent)),
        (None, None) => {}
    }
    if template.is_own_endpoint {
        for (key, value) in &params.routing {
            // A list of fallback models would override the configured model.
            if other_model.is_none() || key.decode(sent) != "models" {
                push(key.span().slice(sent), value.slice(sent));
            }
        }
    }
    for (key, value) in &params.thinking {
        let value = value.slice(sent);
        // Another model may not support the key.
        if other_model.is_none() && reduces_reasoning(&key.decode(sent), value) {
            push(key.span().slice(sent), value);
        }
    }
    if let Some(key) = params.prompt_cache_key.filter(|_| template.is_own_endpoint) {
        // Under the client's own key, the entry would evict that of the live conversation.
        let key = quote(&format!("{}-longhaul", key.decode(sent)));
        push("\"prompt_cache_key\"", &key);
    }
    if let Some(limit) = params.output_limit {
        push(limit.key.span().slice(sent), &output.to_string());
    }
    // If the client requests usage, the upstream supports the option.
    if template.is_own_endpoint && requests_usage(sent) {
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

/// See [`Dialect::append_summary_prompt`](crate::dialect::Dialect::append_summary_prompt).
pub(in crate::dialect) fn append_prompt(
    forwarded: &str,
    upto: usize,
    prompt: &str,
    output: Tokens,
) -> Option<String> {
    let mut members: Vec<String> = Vec::new();
    let mut streams = false;
    let read = Scanner::new(forwarded).object(|scanner, key| {
        let value = scanner.value()?;
        let name = key.decode(forwarded);
        let spelt = key.span().slice(forwarded);
        let written = match &*name {
            "messages" => {
                let messages = forwarded.get(value.start()..upto).unwrap_or_default();
                format!("{spelt}:{messages},{}]", user_message(prompt))
            }
            "max_tokens" | "max_completion_tokens" => format!("{spelt}:{output}"),
            "stream" => {
                streams = true;
                format!("{spelt}:true")
            }
            name if DROPPED_KEYS.contains(&name) => return Ok(()),
            _ => format!("{spelt}:{}", value.slice(forwarded)),
        };
        members.push(written);
        Ok::<(), NotJson>(())
    });
    read.ok()?;
    if !streams {
        members.push("\"stream\":true".to_owned());
    }
    Some(format!("{{{}}}", members.join(",")))
}

/// Whether the client requests usage for its streams. A match inside a text is impossible, because
/// the quotation marks would be escaped.
fn requests_usage(body: &str) -> bool {
    body.match_indices("\"include_usage\"").any(|(at, key)| {
        let rest = body.get(at + key.len()..).unwrap_or_default();
        let value = rest.trim_start().strip_prefix(':');
        value.is_some_and(|value| value.trim_start().starts_with("true"))
    })
}

/// Whether a reasoning option reduces the model's default reasoning. Such an option applies to the
/// summary too, since the upstream supports the key. Options for more reasoning are dropped:
/// reasoning counts as output, and a summary needs none.
fn reduces_reasoning(key: &str, value: &str) -> bool {
    let value: String = value
        .chars()
        .filter(|c| !c.is_ascii_whitespace())
        .collect::<String>()
        .to_lowercase();
    let names = |words: &[&str]| words.iter().any(|word| value.contains(word));
    match key {
        "enable_thinking" | "think" => value == "false",
        "reasoning_effort" => names(&LOW_EFFORTS),
        "reasoning" => {
            names(&["\"enabled\":false"]) || value.contains("\"effort\":") && names(&LOW_EFFORTS)
        }
        "thinking" => names(&["\"type\":\"disabled\""]),
        "chat_template_kwargs" => names(&["\"enable_thinking\":false", "\"thinking\":false"]),
        _ => false,
    }
}

/// Efforts below the default of models.
const LOW_EFFORTS: [&str; 3] = ["\"low\"", "\"minimal\"", "\"none\""];
