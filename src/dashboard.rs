//! Recent conversations for the dashboard: their subject, and what was done to each.
//!
//! The data is kept in memory only, is bounded, and is collected only if the dashboard is served.

pub(crate) mod dto;
pub(crate) mod entry;
pub(crate) mod handle;
pub(crate) mod request_delta;
#[cfg(test)]
mod tests;
pub(crate) mod titles;
pub(crate) mod touched_files;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dto::ConversationDetails;
pub(crate) use dto::ConversationDto;
use entry::DashboardEntry;
pub(crate) use handle::{DashboardHandle, DashboardRequest};
use longhaul_core::units::scope::RecordKey;
use parking_lot::Mutex;
use request_delta::RequestDelta;
use titles::Titles;

/// Maximum conversations shown; the conversation that was idle longest is evicted first.
const MAX_CONVERSATIONS: usize = 64;

/// Recent conversations. Nothing is collected until [`enable`](Self::enable) was called.
#[derive(Default)]
pub(crate) struct RecentConversations {
    enabled: AtomicBool,
    /// Whether the text of summaries must be hidden, even from requests that began before the
    /// change. Written and read under the lock, so that no request can slip in between.
    summaries_hidden: AtomicBool,
    /// Oldest first.
    conversations: Mutex<VecDeque<DashboardEntry>>,
    /// Titles by models, for more conversations than are shown.
    titles: Titles,
}

impl RecentConversations {
    /// Starts collecting conversations.
    pub(crate) fn enable(&self) {
        self.enabled.store(true, Ordering::Release);
    }

    /// Returns the conversations, newest first.
    pub(crate) fn list(&self) -> Vec<ConversationDto> {
        let conversations = self.conversations.lock();
        conversations
            .iter()
            .rev()
            .map(DashboardEntry::to_dto)
            .collect()
    }

    /// Returns the details of one conversation.
    pub(crate) fn details(&self, id: &str) -> Option<ConversationDetails> {
        let conversations = self.conversations.lock();
        let seen = conversations.iter().find(|seen| seen.dto.id == id)?;
        Some(seen.to_details())
    }

    /// Sets whether the text of summaries may be shown. If not, the stored summaries are dropped.
    pub(crate) fn set_summaries_visible(&self, shown: bool) {
        let mut conversations = self.conversations.lock();
        self.summaries_hidden.store(!shown, Ordering::Relaxed);
        if !shown {
            conversations
                .iter_mut()
                .for_each(DashboardEntry::forget_summary);
        }
    }

    /// Records a request; `None` if collecting is not enabled.
    pub(crate) fn record_request(
        self: &Arc<Self>,
        arrival: &DashboardRequest<'_>,
    ) -> Option<DashboardHandle> {
        if !self.enabled.load(Ordering::Acquire) {
            return None;
        }
        let key = arrival.prefix_keys.first_key()?;
        let known = self.update(key, |seen| seen.progress()).unwrap_or_default();
        // A long history takes time to read, so it is read outside the lock.
        let news = RequestDelta::from_request(arrival, known);
        let mut conversations = self.conversations.lock();
        let at = conversations.iter().position(|seen| seen.key == key);
        let known = at.and_then(|at| conversations.remove(at));
        let mut seen = known.unwrap_or_else(|| DashboardEntry::new(key, self.titles.title(key)));
        let hidden = self.summaries_hidden.load(Ordering::Relaxed);
        let summary = arrival.summary.clone().filter(|_| !hidden);
        seen.apply(news, summary);
        while conversations.len() >= MAX_CONVERSATIONS {
            conversations.pop_front();
        }
        conversations.push_back(seen);
        Some(DashboardHandle::new(self, key, arrival.window))
    }

    /// Applies `change` to the conversation `key` and returns the result; `None` if the
    /// conversation is unknown.
    fn update<T>(
        &self,
        key: RecordKey,
        change: impl FnOnce(&mut DashboardEntry) -> T,
    ) -> Option<T> {
        let mut conversations = self.conversations.lock();
        let seen = conversations.iter_mut().find(|seen| seen.key == key);
        seen.map(change)
    }
}
