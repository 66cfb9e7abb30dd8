//! Texts that stay in a conversation: by the settings, and by wishes of its caller and its agent.

use std::sync::Arc;

use crate::chat::context::{Chat, ChatRequest};
use crate::request::keep_headers;
use crate::store::KeptTexts;
use longhaul_core::policy::{CompactionSettings, KeptText};
use longhaul_core::prefix::keys::PrefixKeys;

/// Adds the texts that stay in this conversation to `settings`: those of the settings, those that are stored,
/// and those of the request's own headers.
pub(super) fn add_kept_texts(
    settings: &mut CompactionSettings,
    request: &ChatRequest<'_>,
    prefix_keys: &PrefixKeys,
) {
    let store = &request.state.store;
    let keys = if store.has_kept_texts() { prefix_keys.kept_keys() } else { Vec::new() };
    let mut wished = store.kept_texts(&keys);
    keep_headers::apply(&request.head.headers, &mut wished);
    let model = prefix_keys.model();
    let mut kept: Vec<KeptText> = request.state.config.kept_texts(model).cloned().collect();
    let is_new = |wish: &&KeptText| kept.iter().all(|kept| kept.text != wish.text);
    let new: Vec<KeptText> = wished.texts().iter().filter(is_new).cloned().collect();
    kept.extend(new);
    if !kept.is_empty() {
        Arc::make_mut(&mut settings.words).kept = kept;
    }
}

/// Stores the wishes of an accepted request. Returns whether the texts of its conversation changed.
pub(super) fn store_wishes(chat: &Chat<'_>) -> bool {
    let headers = &chat.request.head.headers;
    if !chat.state().store.has_kept_texts() && !keep_headers::are_present(headers) {
        return false;
    }
    let apply = |kept: &mut KeptTexts| keep_headers::apply(headers, kept);
    let keys = chat.prefix_keys.kept_keys();
    chat.state().store.change_kept_texts(&keys, apply)
}
