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
use news::News;
use seen::Seen;
pub(super) use sighting::{Arrival, Sighting};
pub(crate) use told::Told;
use told::ToldWhole;

/// Conversations that are shown; the one that was silent longest goes first.
const CONVERSATIONS: usize = 64;

/// The conversations of late. Nothing is kept until somebody shows it.
#[derive(Default)]
pub(crate) struct Recent {
    shown: AtomicBool,
    /// Whether the text of summaries is not to be shown, whatever a request under way was told. Set
    /// and asked under the lock, so that none comes in between.
    without_summaries: AtomicBool,
    /// Oldest first.
    conversations: Mutex<VecDeque<Seen>>,
    /// What models call them, of more than are shown.
    titles: Titles,
}

impl Recent {
    /// From now on there is somebody to show it to.
    pub(crate) fn show(&self) {
        self.shown.store(true, Ordering::Release);
    }

    /// The conversations, the newest first.
    pub(crate) fn list(&self) -> Vec<Told> {
        let conversations = self.conversations.lock();
        conversations.iter().rev().map(Seen::told).collect()
    }

    /// All that is told of one of them.
    pub(crate) fn whole(&self, id: &str) -> Option<ToldWhole> {
        let conversations = self.conversations.lock();
        let seen = conversations.iter().find(|seen| seen.told.id == id)?;
        Some(seen.whole())
    }

    /// Whether the text of summaries may be shown from now on. If not, none is kept.
    pub(super) fn show_summaries(&self, shown: bool) {
        let mut conversations = self.conversations.lock();
        self.without_summaries.store(!shown, Ordering::Relaxed);
        if !shown {
            conversations.iter_mut().for_each(Seen::forget_summary);
        }
    }

    /// Takes a request in, where anybody looks.
    pub(super) fn arrive(self: &Arc<Self>, arrival: &Arrival<'_>) -> Option<Sighting> {
        if !self.shown.load(Ordering::Acquire) {
            return None;
        }
        let key = arrival.chains.oldest()?;
        let known = self.with(key, |seen| seen.known()).unwrap_or_default();
        // A long history takes its time; the lock is everybody's.
        let news = News::of(arrival, known);
        let mut conversations = self.conversations.lock();
        let at = conversations.iter().position(|seen| seen.key == key);
        let known = at.and_then(|at| conversations.remove(at));
        let mut seen = known.unwrap_or_else(|| Seen::new(key, self.titles.of(key)));
        let hidden = self.without_summaries.load(Ordering::Relaxed);
        let summary = arrival.summary.clone().filter(|_| !hidden);
        seen.take(news, summary);
        while conversations.len() >= CONVERSATIONS {
            conversations.pop_front();
        }
        conversations.push_back(seen);
        Some(Sighting::new(self, key, arrival.window))
    }

    /// What comes of `change` to the conversation `key`, if it is there.
    fn with<T>(&self, key: RecordKey, change: impl FnOnce(&mut Seen) -> T) -> Option<T> {
        let mut conversations = self.conversations.lock();
        let seen = conversations.iter_mut().find(|seen| seen.key == key);
        seen.map(change)
    }
}
