//! Response formats in which servers report a model's window.
//!
//! `fixtures/models` has a recording of each format with its source. The window that a model was
//! trained for is not the one it is served with, and is ignored. Such keys are `n_ctx_train`, and
//! `max_context_length` of a model that is not loaded.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Deserializer;
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

/// A page of a list of models.
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
        ModelsResponse {
            data: serde_json::from_slice(bytes).ok()?,
            links: None,
        }
    } else {
        serde_json::from_slice(bytes).ok()?
    };
    let named = page.data.iter().find(|entry| entry.id == model);
    let plain = || {
        let (name, _) = model.rsplit_once(':')?;
        page.data.iter().find(|entry| entry.id == name)
    };
    // llama.cpp has one model and answers to any name.
    let only = || match page.data.as_slice() {
        [only] if only.slot_window().is_some() => Some(only),
        _ => None,
    };
    let entry = named.or_else(plain).or_else(only);
    Some(ModelsPage {
        models: page.data.len(),
        window: entry.and_then(ListedModel::window),
        // Only the query string counts: an answer cannot redirect to another path or host.
        next: page
            .links
            .and_then(|links| Some(links.next?.split_once('?')?.1.to_owned())),
    })
}

/// Parses llama.cpp's `GET /props`: the window of one slot, so no division is needed. The server
/// has one model.
fn llama_cpp(bytes: &[u8], _model: &str) -> Option<Tokens> {
    tokens_at(
        &serde_json::from_slice(bytes).ok()?,
        "/default_generation_settings/n_ctx",
    )
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
    data: Vec<ListedModel<'a>>,
    #[serde(default, deserialize_with = "maybe")]
    links: Option<Links>,
}

#[derive(Deserialize)]
struct Links {
    next: Option<String>,
}

#[derive(Deserialize)]
struct ListedModel<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(default, deserialize_with = "tokens")]
    context_length: Option<Tokens>,
    #[serde(default, deserialize_with = "tokens")]
    max_model_len: Option<Tokens>,
    #[serde(default, deserialize_with = "maybe")]
    top_provider: Option<Provider>,
    #[serde(default, deserialize_with = "maybe")]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Provider {
    #[serde(default, deserialize_with = "tokens")]
    context_length: Option<Tokens>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default, deserialize_with = "tokens")]
    n_ctx: Option<Tokens>,
}

impl ListedModel<'_> {
    /// Returns the smallest stated window: if a model and its first server differ, a request may
    /// reach that server.
    fn window(&self) -> Option<Tokens> {
        let stated = [
            self.context_length,
            self.top_provider
                .as_ref()
                .and_then(|first| first.context_length),
            self.max_model_len,
            self.slot_window(),
        ];
        stated.into_iter().flatten().min()
    }

    /// Returns the window of one llama.cpp slot.
    fn slot_window(&self) -> Option<Tokens> {
        self.meta.as_ref()?.n_ctx
    }
}

/// Deserializes a positive count of tokens; `None` for anything else.
fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tokens>, D::Error> {
    let count: Option<u32> = maybe(from)?;
    Ok(count.filter(|&count| count > 0).map(Tokens::new))
}

/// Deserializes a value that other servers use for something else or leave empty; `None` if it does
/// not fit. Reads the value in place, without a copy.
fn maybe<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let raw = <&RawValue>::deserialize(from)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

#[cfg(test)]
mod tests;
