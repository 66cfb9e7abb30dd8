//! Recall over HTTP: an original as plain text, for a holder of its ID, and wishes to keep its words.

pub(crate) mod query;
mod reading;

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task;

use crate::body::budget::fair_share::FairShare;
use crate::body::client_body::ClientBody;
use crate::callers::owners::{self, Owners};
use crate::error::Fault;
use crate::exchange::request_log::RequestLog;
use crate::limits::RECALL_PATH;
use crate::proxy_state::ProxyState;
use crate::store::{KeptTexts, OriginalContent};
use longhaul_core::planning::originals::spoken_words;
use longhaul_core::units::recall_id::RecallId;
use query::RecallQuery;

/// Whether the client requests an original, or wants its words to be kept. If recall is off, the path is reserved like any other under
/// its prefix.
pub(crate) fn is_recall_request(state: &ProxyState, request: &Request<ClientBody>) -> bool {
    state.store.originals().is_some()
        && matches!(*request.method(), Method::DELETE | Method::GET | Method::HEAD | Method::PUT)
        && request.uri().path().starts_with(RECALL_PATH)
}

/// Answers with an original, or with the part of it that the query selects. PUT keeps its words in the
/// conversation, DELETE does not any more. Fails if the ID is unknown or expired, the query is not valid, or
/// the store does not answer.
pub(crate) async fn answer(
    state: &Arc<ProxyState>,
    request: &Request<ClientBody>,
    log: &mut RequestLog,
) -> Result<Response<Bytes>, Fault> {
    log.set_path(request.uri().path());
    state.keys.admit(request)?;
    let id = request.uri().path().strip_prefix(RECALL_PATH);
    let id: RecallId = id.and_then(|id| id.parse().ok()).ok_or(Fault::RecallUnknown)?;
    let query = request.uri().query().unwrap_or_default();
    let query = RecallQuery::parse(query).ok_or(Fault::RecallQuery)?;
    let place = ReadPlace::acquire(reader_of(state, id, request)).await;
    let state = Arc::clone(state);
    // Dropped with the request.
    let client = Arc::new(());
    let reader = Arc::downgrade(&client);
    let method = request.method().clone();
    // A search takes the time of its thread, and the workers are for requests.
    let text = task::spawn_blocking(move || {
        let _place = place;
        Handle::current().block_on(async {
            let quote = query.quote.as_deref();
            match method {
                Method::PUT => change(&state, id, quote, true).await,
                Method::DELETE => change(&state, id, quote, false).await,
                _ => reading::read(&state, id, &query, &reader).await,
            }
        })
    });
    let text = text.await.map_err(|_| Fault::RecallUnavailable)??;
    let mut reply = Response::new(Bytes::from(text));
    let headers = reply.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

/// Returns the owners of a read: the owner of the conversation, or else the address. A reader may lack the
/// credentials of the chat.
fn reader_of(state: &ProxyState, id: RecallId, request: &Request<ClientBody>) -> Owners {
    let peer = owners::of_request(request.extensions()).peer();
    let owner = state.accepted.owner(id.scope());
    owner.map_or_else(|| Owners::strangers(peer), |owner| Owners::of_tag(owner, peer))
}

/// Maximum concurrent reads; further ones wait. A read may decrypt a whole history.
const MAX_READS: u64 = 4;

static READS: LazyLock<Reads> =
    LazyLock::new(|| Reads { places: FairShare::new(MAX_READS), freed: Notify::new() });

struct Reads {
    places: FairShare,
    freed: Notify,
}

/// A place, returned on drop.
pub(super) struct ReadPlace(Owners);

impl ReadPlace {
    /// Waits for a place of these owners.
    pub(super) async fn acquire(owners: Owners) -> Self {
        loop {
            let freed = READS.freed.notified();
            if READS.places.take(Some(&owners), 1, 0).is_ok() {
                return Self(owners);
            }
            freed.await;
        }
    }
}

impl Drop for ReadPlace {
    fn drop(&mut self) {
        READS.places.give_back(Some(&self.0), 1);
        READS.freed.notify_waiters();
    }
}

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
    let wish = |kept: &mut KeptTexts| {
        if is_kept {
            return kept.keep(text, true).map_err(|_| Fault::KeepRefused);
        }
        kept.take_back(text, true);
        Ok(())
    };
    state.store.wish(&keys, wish).await?;
    Ok(if is_kept { "kept\n" } else { "taken back\n" }.to_owned())
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use longhaul_core::units::scope::ScopeTag;

    use super::*;

    #[tokio::test]
    async fn reads_of_one_owner_leave_a_place_to_another() {
        let owners = |number| Owners::of_tags(&[ScopeTag([number; 8])]);
        let try_acquire = async |number| {
            tokio::select! {
                biased;
                place = ReadPlace::acquire(owners(number)) => Some(place),
                () = ready(()) => None,
            }
        };
        let first = try_acquire(1).await;
        let second = try_acquire(1).await;
        assert!(first.is_some() && second.is_some());
        assert!(try_acquire(1).await.is_none());
        assert!(try_acquire(2).await.is_some());
        let waiting = tokio::spawn(ReadPlace::acquire(owners(1)));
        task::yield_now().await;
        drop(first);
        waiting.await.unwrap();
    }
}
