//! A wish of the agent about a text of the user or of its own: to keep it in the conversation, or not any
//! more.

use crate::error::Fault;
use crate::proxy_state::ProxyState;
use crate::recall::reading;
use crate::store::OriginalContent;
use longhaul_core::planning::originals::spoken_words;
use longhaul_core::units::recall_id::RecallId;

/// Keeps the words of the user or the agent in the original with this ID, or the part `quote` of them. Takes
/// the wish back if `is_kept` is not set. Fails if the original holds no such words, a bound is exceeded, or
/// the store does not answer.
pub(super) async fn change(
    state: &ProxyState,
    id: RecallId,
    quote: Option<&str>,
    is_kept: bool,
) -> Result<String, Fault> {
    let original = reading::original(state, id).await?;
    let OriginalContent::Text(unit) = &original.content else {
        return Err(Fault::KeepRefused);
    };
    let words = spoken_words(unit, original.outline).ok_or(Fault::KeepRefused)?;
    let text = quote.map_or(&*words, str::trim);
    if !words.contains(text) {
        return Err(Fault::KeepRefused);
    }
    let keys = [original.outline.kept_key()];
    state.store.refresh_kept_texts(keys[0]).await;
    let mut outcome = Err(Fault::KeepRefused);
    state.store.change_kept_texts(&keys, |kept| {
        outcome = if is_kept {
            kept.keep(text, true).map_err(|_| Fault::KeepRefused)
        } else {
            kept.take_back(text, true);
            Ok(())
        };
    });
    outcome?;
    state.store.flush().await;
    Ok(if is_kept { "kept\n" } else { "taken back\n" }.to_owned())
}
