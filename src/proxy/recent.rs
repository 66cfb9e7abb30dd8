//! The conversations of late, for the dashboard: what they are about and what was done to each.
//!
//! It is kept in memory, only where there is a page to show it on, and goes nowhere else. Everything
//! of it is bounded.

mod files;
mod news;
mod seen;
mod sighting;
#[cfg(test)]
mod tests;
mod told;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::titles::Titles;
use crate::lock::Mutex;
use crate::rewrite::chain::RecordKey;
use news::RequestDelta;
use seen::DashboardEntry;
pub(super) use sighting::{DashboardHandle, DashboardRequest};
use told::ConversationDetails;
pub(crate) use told::ConversationDto;

/// Conversations that are shown; the one that was silent longest goes first.
const MAX_CONVERSATIONS: usize = 64;

/// The conversations of late. Nothing is kept until somebody shows it.
#[derive(Default)]
pub(crate) struct RecentConversations {
    enabled: AtomicBool,
    /// Whether the text of summaries is not to be shown, whatever a request under way was told. Set
    /// and asked under the lock, so that none comes in between.
    summaries_hidden: AtomicBool,
    /// Oldest first.
    conversations: Mutex<VecDeque<DashboardEntry>>,
    /// What models call them, of more than are shown.
    titles: Titles,
}

impl RecentConversations {
    /// From now on there is somebody to show it to.
    pub(crate) fn enable(&self) {
        self.enabled.store(true, Ordering::Release);
    }

    /// The conversations, the newest first.
    pub(crate) fn list(&self) -> Vec<ConversationDto> {
        let conversations = self.conversations.lock();
        conversations
            .iter()
            .rev()
            .map(DashboardEntry::to_dto)
            .collect()
    }

    /// All that is told of one of them.
    pub(crate) fn details(&self, id: &str) -> Option<ConversationDetails> {
        let conversations = self.conversations.lock();
        let seen = conversations.iter().find(|seen| seen.dto.id == id)?;
        Some(seen.to_details())
    }

    /// Whether the text of summaries may be shown from now on. If not, none is kept.
    pub(super) fn set_summaries_visible(&self, shown: bool) {
        let mut conversations = self.conversations.lock();
        self.summaries_hidden.store(!shown, Ordering::Relaxed);
        if !shown {
            conversations
                .iter_mut()
                .for_each(DashboardEntry::forget_summary);
        }
    }

    /// Takes a request in, where anybody looks.
    pub(super) fn record_request(
        self: &Arc<Self>,
        arrival: &DashboardRequest<'_>,
    ) -> Option<DashboardHandle> {
        if !self.enabled.load(Ordering::Acquire) {
            return None;
        }
        let key = arrival.chains.first_key()?;
        let known = self.update(key, |seen| seen.progress()).unwrap_or_default();
        // A long history takes its time; the lock is everybody's.
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

    /// What comes of `change` to the conversation `key`, if it is there.
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
