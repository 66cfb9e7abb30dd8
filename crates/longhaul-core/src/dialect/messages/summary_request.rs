//! Request bodies of summary calls.

use super::reader::read;
use super::writer::{text_part, user_message};
use crate::dialect::reasoning_option::reduces_reasoning;
use crate::dialect::request_template::RequestTemplate;
use crate::json::quote::quote;
use crate::json::scanner::{NotJson, Scanner};
use crate::units::tokens::Tokens;

/// Keys of the client's request that a call in `cached` style repeats, besides model, messages and
/// output limit. The provider's cache, the choice of a server and the price depend on them. Any
/// other key may change the kind of the answer, or buy a service.
const REPEATED_KEYS: [&str; 14] = [
    "cache_control",
    "context_management",
    "inference_geo",
    "metadata",
    "output_config",
    "provider",
    "route",
    "service_tier",
    "speed",
    "system",
    "thinking",
    "tools",
    "transforms",
    "user",
];

/// Most cache marks of a request.
const MAX_CACHE_MARKS: usize = 4;
/// Mark with the shortest lifetime. Marks with a longer one have to precede it.
const CACHE_MARK: &str = r#"{"type":"ephemeral"}"#;
/// Cache mark as a key. Quotation marks within a text are escaped, so a match is a key.
const CACHE_MARK_KEY: &str = r#""cache_control""#;

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
        // Another model may not support the key.
        if other_model.is_none() && reduces_reasoning(&key.decode(sent), value.slice(sent)) {
            push(key.span().slice(sent), value.slice(sent));
        }
    }
    push("\"max_tokens\"", &output.to_string());
    push("\"system\"", &quote(system));
    body.extend([
        "\"stream\":true,\"messages\":[",
        &user_message(&quote(user)),
        "]}",
    ]);
    body
}

/// See [`Dialect::append_summary_prompt`](crate::dialect::Dialect::append_summary_prompt).
///
/// If the client sets cache marks, the prompt gets one too. Without a mark behind the repeated
/// messages, the provider would not look for them in its cache.
pub(in crate::dialect) fn append_prompt(
    forwarded: &str,
    upto: usize,
    prompt: &str,
    output: Tokens,
) -> Option<String> {
    let mut members: Vec<String> = Vec::new();
    let mut messages = None;
    let (mut streams, mut limits, mut has_automatic_mark) = (false, false, false);
    let read = Scanner::new(forwarded).object(|scanner, key| {
        let value = scanner.value()?;
        let name = key.decode(forwarded);
        let spelt = key.span().slice(forwarded);
        let written = match &*name {
            "messages" => {
                messages = Some(members.len());
                let kept = forwarded.get(value.start()..upto).unwrap_or_default();
                format!("{spelt}:{kept}")
            }
            "model" => format!("{spelt}:{}", value.slice(forwarded)),
            "max_tokens" => {
                limits = true;
                format!("{spelt}:{output}")
            }
            "stream" => {
                streams = true;
                format!("{spelt}:true")
            }
            name if REPEATED_KEYS.contains(&name) => {
                has_automatic_mark |= name == "cache_control";
                format!("{spelt}:{}", value.slice(forwarded))
            }
            _ => return Ok(()),
        };
        members.push(written);
        Ok::<(), NotJson>(())
    });
    read.ok()?;
    let marks: usize = members
        .iter()
        .map(|it| it.matches(CACHE_MARK_KEY).count())
        .sum();
    let may_mark = !has_automatic_mark && (1..MAX_CACHE_MARKS).contains(&marks);
    let block = text_part(prompt, may_mark.then_some(CACHE_MARK));
    let messages = members.get_mut(messages?)?;
    match open_object_end(forwarded, upto)? {
        "" => messages.extend([",", &user_message(&["[", &block, "]"].concat()), "]"]),
        // The repeated messages end within an object: the prompt is its last block.
        close => messages.extend([",", &block, close, "]"]),
    }
    if !limits {
        members.push(format!("\"max_tokens\":{output}"));
    }
    if !streams {
        members.push("\"stream\":true".to_owned());
    }
    Some(format!("{{{}}}", members.join(",")))
}

/// Returns the bytes that close the object which byte `upto` of a body falls into. They are empty if
/// an object ends there. Returns `None` if the body has no message before it.
fn open_object_end(body: &str, upto: usize) -> Option<&str> {
    let conversation = read(body.as_bytes()).ok()?;
    let messages = conversation.messages();
    let behind = messages.partition_point(|message| message.span.end() <= upto);
    let last = behind.checked_sub(1)?;
    let (end, close) = conversation.object_end(last)?;
    Some(if end == upto { close } else { "" })
}

#[cfg(test)]
mod tests;
