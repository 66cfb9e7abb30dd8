//! Members that a summary call takes from the client's request, the same in every dialect.

use std::borrow::Cow;

use serde_json::Value;

use crate::dialect::reasoning_option::reduces_reasoning;
use crate::dialect::request_template::RequestTemplate;
use crate::json::quote::quote;
use crate::json::scanner::{NotJson, Scanner, members};
use crate::json::span::Span;
use crate::units::tokens::Tokens;

/// Longest `prompt_cache_key` that OpenAI accepts.
const MAX_CACHE_KEY: usize = 64;
/// End of the key of a summary call.
const OWN_KEY: &str = "-longhaul";
/// Hexadecimal digits of the digest that stands for the end of a longer key.
const KEY_DIGITS: usize = 16;

/// Variant of a model name with which `OpenRouter` buys a web search for every call.
const SEARCH_VARIANT: &str = "online";

/// Returns the beginning of a summary call: an open object with the members that follow from the
/// client's request. These are the model, routing, options that reduce reasoning, the cache key and the
/// output limit. Every dialect shares them.
pub(super) fn client_members(template: &RequestTemplate<'_>, output: Tokens) -> String {
    let (client, other_model) = (template.conversation, template.other_model);
    let (params, sent) = (client.params(), client.body());
    let mut body = String::from("{");
    let mut push = |key: &str, value: &str| body.extend([key, ":", value, ","]);
    let path_model = params.path.as_ref().map(|path| &*path.model);
    match (other_model.or(path_model), params.model) {
        _ if template.has_model_in_path() => {}
        (Some(model), _) => push("\"model\"", &quote(&without_search(model))),
        (None, Some(model)) => push("\"model\"", &models_without_search(model.span().slice(sent))),
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
        // Another model or API may not support the key.
        let is_known = other_model.is_none() && template.is_own_dialect();
        if is_known && reduces_reasoning(&key.decode(sent), value) {
            push(key.span().slice(sent), value);
        }
    }
    if let Some(key) = params.prompt_cache_key.filter(|_| template.is_own_endpoint) {
        let key = quote(&own_cache_key(&key.decode(sent)));
        push("\"prompt_cache_key\"", &key);
    }
    let limit = params.output_limit.filter(|_| template.is_own_dialect());
    if let Some(limit) = limit {
        push(limit.key.span().slice(sent), &output.to_string());
    }
    body
}

/// Returns the cache key of the summary calls for a conversation under `key`. Under the client's own key, the
/// entry would evict that of the live conversation. Different keys have different ones, whatever their length.
fn own_cache_key(key: &str) -> String {
    let room = MAX_CACHE_KEY - OWN_KEY.len();
    if key.len() <= room {
        return format!("{key}{OWN_KEY}");
    }
    let (start, _) = key.split_at(key.floor_char_boundary(room - KEY_DIGITS));
    let digest = blake3::hash(key.as_bytes()).to_hex();
    let (digits, _) = digest.split_at(KEY_DIGITS);
    format!("{start}{digits}{OWN_KEY}")
}

/// Whether the options of an output, an object, leave its format to the model or request plain text.
pub(super) fn has_text_format(options: &str) -> bool {
    let is_text = |format: &str| {
        let mut members = members(format);
        format == "null" || members.any(|(key, value)| key == "type" && value == r#""text""#)
    };
    let mut members = members(options);
    members.all(|(key, format)| key != "format" || is_text(format))
}

/// Returns the members of a call in `cached` style, each as `key:value`, in the order of the forwarded
/// request. Those of `set`, a key and a value each, take the place of the client's own, or come last. `written` returns
/// the value in place of another that it receives by its key and span. The other members stay byte for byte if a line
/// of `repeated` is their key, and are left out otherwise. Lines that begin with `#` are comments. Returns `None` if
/// `forwarded` is not a JSON object.
pub(super) fn repeat_members(
    forwarded: &str,
    repeated: &str,
    set: &[(&str, &str)],
    mut written: impl FnMut(&str, Span) -> Option<String>,
) -> Option<Vec<String>> {
    let is_repeated =
        |name: &str| !name.starts_with('#') && repeated.lines().any(|key| key == name);
    let mut kept = Vec::new();
    let mut missing = set.to_vec();
    let read = Scanner::new(forwarded).object(|scanner, key| {
        let value = scanner.value()?;
        let name = key.decode(forwarded);
        let spelt = key.span().slice(forwarded);
        missing.retain(|(key, _)| *key != name);
        let own = set.iter().find(|(key, _)| *key == name).map(|(_, own)| (*own).to_owned());
        if let Some(value) = own.or_else(|| written(&name, value)) {
            kept.push(format!("{spelt}:{value}"));
        } else if is_repeated(&name) {
            kept.push(format!("{spelt}:{}", value.slice(forwarded)));
        }
        Ok::<(), NotJson>(())
    });
    kept.extend(missing.into_iter().map(|(key, value)| format!("\"{key}\":{value}")));
    read.ok().map(|_| kept)
}

pub(super) fn object(members: &[String]) -> String {
    format!("{{{}}}", members.join(","))
}

/// Returns the JSON of a model name, or of a list of names, without the variants that buy a search. Any
/// other JSON stays byte for byte.
pub(super) fn models_without_search(json: &str) -> Cow<'_, str> {
    let plain = |name: &Value| {
        name.as_str().map_or_else(|| name.clone(), |name| without_search(name).into())
    };
    let Ok(sent) = serde_json::from_str::<Value>(json) else {
        return json.into();
    };
    let called =
        sent.as_array().map_or_else(|| plain(&sent), |names| names.iter().map(plain).collect());
    if called == sent {
        return json.into();
    }
    called.to_string().into()
}

/// Removes the variant that buys a search from the name of a model.
fn without_search(model: &str) -> String {
    let mut parts = model.split(':');
    let name = parts.next().unwrap_or_default().to_owned();
    let kept = parts.filter(|variant| !variant.eq_ignore_ascii_case(SEARCH_VARIANT));
    kept.fold(name, |name, variant| format!("{name}:{variant}"))
}
