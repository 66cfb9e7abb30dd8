//! Response formats in which servers report a model's window.
//!
//! `fixtures/models` has a recording of each format with its source. The window that a model was
//! trained for is not the one it is served with, and is ignored. Such keys are `n_ctx_train`, and
//! `max_context_length` of a model that is not loaded.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use longhaul_core::units::tokens::Tokens;

/// Parses a response and returns the window of one model.
pub(super) type WindowParser = fn(&[u8], &str) -> Option<Tokens>;

/// Paths queried of a local server whose list of models states no window: relative to the origin,
/// in this order.
pub(super) const LOCAL_ENDPOINTS: [(&str, WindowParser); 4] = [
    ("/props", llama_cpp),
    ("/api/v0/models", lm_studio),
    ("/api/ps", ollama),
    ("/info", text_generation_inference),
];

/// Path of the window of one llama.cpp slot.
const SLOT_WINDOW: &str = "/meta/n_ctx";

#[derive(Debug, Eq, PartialEq)]
pub(super) struct ModelsPage {
    /// Number of models on this page.
    pub(super) models: usize,
    /// The window of the requested model; `None` if the page does not state it.
    pub(super) window: Option<Tokens>,
    /// The query string of the next page, if any.
    pub(super) next: Option<String>,
}

/// Parses `GET {base}/models`. Reads these fields:
///
/// - `context_length` and `top_provider.context_length` of `OpenRouter`;
/// - `max_model_len` of vLLM and `SGLang`;
/// - `meta.n_ctx` of llama.cpp;
/// - `context_length` of Together, whose list is a bare array.
pub(super) fn models_page(bytes: &[u8], model: &str) -> Option<ModelsPage> {
    let page = if bytes.trim_ascii_start().starts_with(b"[") {
        ModelsResponse { data: serde_json::from_slice(bytes).ok()?, links: None }
    } else {
        serde_json::from_slice(bytes).ok()?
    };
    // One entry at a time is a tree: a list of several megabytes would take many times its size.
    let entry_of = |name: &str| {
        let mut entries = page.data.iter().filter_map(entry);
        entries.find(|entry| text_of(entry, "id") == Some(name))
    };
    let plain = || entry_of(model.rsplit_once(':')?.0);
    // llama.cpp has one model and answers to any name.
    let only = || match page.data.as_slice() {
        [only] => entry(only).filter(|only| tokens_at(only, SLOT_WINDOW).is_some()),
        _ => None,
    };
    let named = entry_of(model).or_else(plain).or_else(only);
    let next = page.links.as_ref().and_then(|links| text_of(links, "next"));
    Some(ModelsPage {
        models: page.data.len(),
        window: named.and_then(|entry| smallest_window(&entry)),
        // Only the query string counts: an answer cannot redirect to another path or host.
        next: next.and_then(|next| Some(next.split_once('?')?.1.to_owned())),
    })
}

fn entry(json: &&RawValue) -> Option<Value> {
    serde_json::from_str(json.get()).ok()
}

/// Returns the smallest window that an entry states: if a model and its first server differ, a request may reach
/// that server.
fn smallest_window(entry: &Value) -> Option<Tokens> {
    let paths = ["/context_length", "/top_provider/context_length", "/max_model_len", SLOT_WINDOW];
    let stated = paths.into_iter().filter_map(|path| tokens_at(entry, path));
    stated.min()
}

/// Parses llama.cpp's `GET /props`: the window of one slot, so no division is needed. The server
/// has one model.
fn llama_cpp(bytes: &[u8], _model: &str) -> Option<Tokens> {
    tokens_at(&serde_json::from_slice(bytes).ok()?, "/default_generation_settings/n_ctx")
}

/// Parses LM Studio's `GET /api/v0/models`: the context length with which the model was loaded.
fn lm_studio(bytes: &[u8], model: &str) -> Option<Tokens> {
    let models: Value = serde_json::from_slice(bytes).ok()?;
    let mut entries = models.get("data")?.as_array()?.iter();
    let named = entries.find(|entry| text_of(entry, "id") == Some(model))?;
    tokens_at(named, "/loaded_context_length")
}

/// Parses Ollama's `GET /api/ps`: the loaded models. A name without a tag means `latest`.
fn ollama(bytes: &[u8], model: &str) -> Option<Tokens> {
    let running: Value = serde_json::from_slice(bytes).ok()?;
    let mut entries = running.get("models")?.as_array()?.iter();
    let named = entries.find(|entry| {
        let name = text_of(entry, "name").unwrap_or_default();
        name == model || name.strip_suffix(":latest") == Some(model)
    })?;
    tokens_at(named, "/context_length")
}

/// Parses Text Generation Inference's `GET /info`: input and output together. The server has one
/// model.
fn text_generation_inference(bytes: &[u8], _model: &str) -> Option<Tokens> {
    tokens_at(&serde_json::from_slice(bytes).ok()?, "/max_total_tokens")
}

fn text_of<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

/// Returns the positive count of tokens at `path`; `None` for anything else.
fn tokens_at(value: &Value, path: &str) -> Option<Tokens> {
    let count = u32::try_from(value.pointer(path)?.as_u64()?).ok()?;
    (count > 0).then(|| Tokens::new(count))
}

#[derive(Deserialize)]
struct ModelsResponse<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
    links: Option<Value>,
}

#[cfg(test)]
mod tests;
