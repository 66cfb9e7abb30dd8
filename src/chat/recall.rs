//! Stores the originals of an answered chat for recall, concurrently with the request.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task;

use crate::chat::context::{Chat, ChatRequest};
use crate::request::paths;
use longhaul_core::planning::originals::Originals;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::recall::RecallLink;

/// Returns the link of a chat's conversation; `None` if recall is off.
///
/// Anyone can compact explicitly with any key, so nothing is kept then for a caller whom no upstream has
/// answered.
pub(super) fn link(
    request: &ChatRequest<'_>,
    prefix_keys: &PrefixKeys,
    prior: &PriorRecords,
) -> Option<Arc<RecallLink>> {
    let state = request.state;
    state.store.originals()?;
    if request.head.uri.path() == paths::COMPACT_PATH && !prior.seen {
        return None;
    }
    let form = state.config.recall.clone()?;
    let conversation = prefix_keys.conversation_key()?;
    let prefixes = Arc::clone(prefix_keys.all());
    let link = RecallLink::new(request.scope, conversation, prefixes, form);
    Some(Arc::new(link))
}

/// Keeps the originals of what `view` replaces, unless they are kept. Parses the body once more on a
/// separate thread, so that the reply waits for nothing.
pub(super) fn keep_originals(chat: &Chat<'_>, view: &ForwardedView) {
    let state = chat.state();
    let (Some(link), Some(store)) = (&chat.settings.recall, state.store.originals()) else {
        return;
    };
    let conversation = chat.request.conversation;
    let wanted = view.recallable(conversation);
    if store.knows_all(wanted.iter().map(|(id, _)| *id)) {
        return;
    }
    let body = chat.request.body.text().clone();
    let (Some(permit), Ok(runtime)) = (store.permit(body.len()), Handle::try_current()) else {
        tracing::debug!("originals of this request wait for the next one: too many are being kept");
        return;
    };
    let (dialect, link, store) = (conversation.dialect(), Arc::clone(link), Arc::clone(store));
    runtime.spawn(async move {
        let _permit = permit;
        let collected = task::spawn_blocking(move || {
            let conversation = dialect.read(&body).ok()?;
            Some(Originals::new(&conversation, &link, &wanted))
        });
        if let Ok(Some(originals)) = collected.await
            && !store.keep(originals).await
        {
            tracing::warn!(
                "the store did not take all originals; the next request offers them again"
            );
        }
    });
}
