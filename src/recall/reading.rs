//! Reads an original, and the originals that it is made of.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use crate::error::Fault;
use crate::proxy_state::ProxyState;
use crate::recall::query::{AnswerText, RecallQuery};
use crate::store::{Original, OriginalContent, OriginalStore};
use longhaul_core::units::recall_id::RecallId;

/// Units that are read at once: enough for few calls to the store, and few enough for memory.
const BATCH: usize = 32;

/// Reads what `query` selects of the original with this ID, or of its conversation. A search ends once `reader`
/// is gone. Fails if the original is unknown or expired, or the store does not answer.
pub(super) async fn read(
    state: &ProxyState,
    id: RecallId,
    query: &RecallQuery,
    reader: &Weak<()>,
) -> Result<String, Fault> {
    let store = state.store.originals().ok_or(Fault::RecallUnknown)?;
    let original = original(state, id).await?;
    state.recent.record_recall(original.outline.kept_key());
    let mut answer = AnswerText::new(query, reader);
    if query.is_outline || query.is_history {
        let outline = one(store, original.outline).await?;
        let outline = outline.ok_or(Fault::RecallUnknown)?;
        let OriginalContent::Outline(units) = &outline.content else {
            return Err(Fault::RecallUnknown);
        };
        if query.is_history {
            add_units(store, units, &mut answer).await?;
        } else {
            add_titles(units, &mut answer);
        }
        return Ok(answer.finish());
    }
    match &original.content {
        OriginalContent::Outline(units) => add_titles(units, &mut answer),
        OriginalContent::Slice(unit, from, to) => {
            let unit = one(store, *unit).await?.ok_or(Fault::RecallUnknown)?;
            let text = text_of(&unit).and_then(|text| text.get(*from..*to));
            _ = answer.add(text.ok_or(Fault::RecallUnknown)?, None);
        }
        OriginalContent::Text(text) => _ = answer.add(text, None),
        OriginalContent::Units(units) => {
            let units: Vec<_> = units.iter().map(|id| (*id, String::new())).collect();
            add_units(store, &units, &mut answer).await?;
        }
    }
    Ok(answer.finish())
}

/// Returns the original with this ID. Fails if it is unknown or expired, or the store does not answer.
pub(super) async fn original(state: &ProxyState, id: RecallId) -> Result<Arc<Original>, Fault> {
    let store = state.store.originals().ok_or(Fault::RecallUnknown)?;
    let mut found = one(store, id).await?;
    if found.is_none() {
        // The request that names the ID may have been answered a moment ago.
        store.settled().await;
        found = one(store, id).await?;
    }
    found.ok_or(Fault::RecallUnknown)
}

/// Adds the IDs and titles of units until the answer is full.
fn add_titles(units: &[(RecallId, String)], answer: &mut AnswerText<'_>) {
    let mut units = units.iter();
    _ = units.all(|(id, title)| answer.add(&format!("{id}  {title}\n"), None));
}

/// Adds the texts of units, in order, until the answer is full. A unit that made room is named as such.
async fn add_units(
    store: &OriginalStore,
    units: &[(RecallId, String)],
    answer: &mut AnswerText<'_>,
) -> Result<(), Fault> {
    for units in units.chunks(BATCH) {
        let ids: Vec<RecallId> = units.iter().map(|(id, _)| *id).collect();
        let found = store.read(&ids).await.map_err(|_| Fault::RecallUnavailable)?;
        for ((id, title), unit) in units.iter().zip(found) {
            let text = unit.as_deref().and_then(text_of);
            let text = text.map_or(Cow::Borrowed("[this part is no longer kept]\n"), Cow::Borrowed);
            let place = (!title.is_empty()).then(|| format!("{id}  {title}"));
            if !answer.add(&text, place.as_deref()) {
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn one(store: &OriginalStore, id: RecallId) -> Result<Option<Arc<Original>>, Fault> {
    let found = store.read(&[id]).await;
    let found = found.map_err(|_| Fault::RecallUnavailable)?;
    Ok(found.into_iter().next().flatten())
}

fn text_of(original: &Original) -> Option<&str> {
    match &original.content {
        OriginalContent::Text(text) => Some(text),
        OriginalContent::Outline(_) | OriginalContent::Slice(..) | OriginalContent::Units(_) => {
            None
        }
    }
}
