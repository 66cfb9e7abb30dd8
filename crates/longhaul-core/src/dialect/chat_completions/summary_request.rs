//! Request bodies of summary calls.

use crate::dialect::chat_completions::writer::user_message;
use crate::dialect::reasoning_option::reduces_reasoning;
use crate::dialect::request_template::RequestTemplate;
use crate::json::quote::quote;
use crate::json::scanner::{NotJson, Scanner};
use crate::units::tokens::Tokens;
use serde_json::Value;
use std::borrow::Cow;

/// Keys of the client's request that a call in `cached` style repeats, besides model, messages and output
/// limit. The provider's cache, the choice of a server and the price depend on them. Any other key may
/// change the kind of the answer, or buy a service.
const REPEATED_KEYS: [&str; 30] = [
    "cache_control",
    "cache_prompt",
    "cache_salt",
    "chat_template_kwargs",
    "enable_thinking",
    "functions",
    "id_slot",
    "keep_alive",
    "preset",
    "prompt_cache_key",
    "prompt_cache_retention",
    "provider",
    "providerOptions",
    "reasoning",
    "reasoning_effort",
    "route",
    "safety_identifier",
    "seed",
    "service_tier",
    "session_id",
    "store",
    "stream_options",
    "tags",
    "temperature",
    "think",
    "thinking",
    "tools",
    "top_p",
    "transforms",
    "user",
];

/// Variant of a model name with which `OpenRouter` buys a web search for every call.
const SEARCH_VARIANT: &str = "online";

/// See [`Dialect::summary_request`](crate::dialect::Dialect::summary_request).
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

/// Returns the beginning of a summary call: an open object with the members that follow from the
/// client's request. These are the model, routing, options that reduce reasoning, the cache key and the
/// output limit. Chat completions and Responses share them.
pub(in crate::dialect) fn client_members(template: &RequestTemplate<'_>, output: Tokens) -> String {
    let (client, other_model) = (template.conversation, template.other_model);
    let (params, sent) = (client.params(), client.body());
    let mut body = String::from("{");
    let mut push = |key: &str, value: &str| body.extend([key, ":", value, ","]);
    match (other_model, params.model) {
        (Some(model), _) => push("\"model\"", &quote(&without_search(model))),
        (None, Some(model)) => push(
            "\"model\"",
            &models_without_search(model.span().slice(sent)),
        ),
        (None, None) => {}
    }
    if template.is_own_endpoint {
        for (key, value) in &params.routing {
            // A list of fallback models would override the configured model.
            let is_models = key.decode(sent) == "models";
            let value = value.slice(sent);
            if !is_models {
                push(key.span().slice(sent), value);
            } else if other_model.is_none() {
                push(key.span().slice(sent), &models_without_search(value));
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
    let limit = params.output_limit.filter(|_| template.is_own_dialect());
    if let Some(limit) = limit {
        push(limit.key.span().slice(sent), &output.to_string());
    }
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
            "model" | "models" => {
                let models = models_without_search(value.slice(forwarded));
                format!("{spelt}:{models}")
            }
            "max_tokens" | "max_completion_tokens" => format!("{spelt}:{output}"),
            "stream" => {
                streams = true;
                format!("{spelt}:true")
            }
            name if REPEATED_KEYS.contains(&name) => {
                format!("{spelt}:{}", value.slice(forwarded))
            }
            _ => return Ok(()),
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

/// Returns the JSON of a model name, or of a list of names, without the variants that buy a search. Any
/// other JSON stays byte for byte.
pub(in crate::dialect) fn models_without_search(json: &str) -> Cow<'_, str> {
    let plain = |name: &Value| {
        name.as_str()
            .map_or_else(|| name.clone(), |name| without_search(name).into())
    };
    let Ok(sent) = serde_json::from_str::<Value>(json) else {
        return json.into();
    };
    let called = sent
        .as_array()
        .map_or_else(|| plain(&sent), |names| names.iter().map(plain).collect());
    if called == sent {
        return json.into();
    }
    called.to_string().into()
}

/// Removes the variant that buys a search from the name of a model.
pub(in crate::dialect) fn without_search(model: &str) -> String {
    let mut parts = model.split(':');
    let name = parts.next().unwrap_or_default().to_owned();
    let kept = parts.filter(|variant| !variant.eq_ignore_ascii_case(SEARCH_VARIANT));
    kept.fold(name, |name, variant| format!("{name}:{variant}"))
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
