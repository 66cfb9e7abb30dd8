//! The conversations that are shown, with the order and the revision of their changes.

use std::collections::VecDeque;

use serde::Serialize;

use crate::dashboard::dto::{ConversationDto, RequestPoint};
use crate::dashboard::entry::DashboardEntry;
use crate::explanation::ConversationId;
use crate::explanation::report::ExplanationReport;

/// Maximum conversations shown; the conversation that was idle longest is evicted first.
pub(super) const MAX_CONVERSATIONS: usize = 512;
/// Maximum weight of all explanations, in rows of about 80 bytes. Those of the conversations that were
/// idle longest are dropped first.
const MAX_EXPLANATION_ROWS: usize = 200_000;
/// Maximum requests in the feed over all conversations, the newest ones.
const MAX_FEED: usize = 60;
/// Explanations that the busiest conversation keeps in any case.
const MIN_EXPLANATIONS: usize = 8;

#[derive(Default)]
pub(super) struct ShownConversations {
    /// Oldest first. Boxed, because entries move whenever a conversation becomes the newest.
    entries: VecDeque<Box<DashboardEntry>>,
    /// Number of changes so far: the revision of the last one.
    pub(super) revision: u64,
    /// Evicted conversations with the revision of the eviction, oldest first.
    evicted: VecDeque<(u64, String)>,
    /// Number of conversations evicted so far.
    evicted_count: u64,
    /// The newest requests, oldest first, each with the revision of its end.
    feed: VecDeque<(u64, FeedRow)>,
    explanation_rows: usize,
}

/// A request of any conversation.
#[derive(Clone, Serialize)]
struct FeedRow {
    conversation: String,
    model: String,
    #[serde(flatten)]
    point: RequestPoint,
}

/// Changes of the list after a revision.
#[derive(Serialize)]
pub(crate) struct ListChange {
    /// Revision after these changes.
    pub(crate) revision: u64,
    /// Changed conversations, newest first.
    pub(crate) conversations: Vec<ConversationDto>,
    /// Requests that have ended, oldest first.
    feed: Vec<FeedRow>,
    /// Conversations that are not kept any more.
    evicted: Vec<String>,
    /// Number of conversations evicted since the start.
    evicted_count: u64,
}

impl ShownConversations {
    pub(super) fn changes_since(&self, revision: u64) -> ListChange {
        let changed = self.newest_first().filter(|seen| seen.revision > revision);
        let feed = self.feed.iter().filter(|(at, _)| *at > revision);
        let evicted = self.evicted.iter().filter(|(at, _)| *at > revision);
        ListChange {
            revision: self.revision,
            conversations: changed.map(DashboardEntry::to_dto).collect(),
            feed: feed.map(|(_, row)| row.clone()).collect(),
            evicted: evicted.map(|(_, id)| id.clone()).collect(),
            evicted_count: self.evicted_count,
        }
    }

    pub(super) fn newest_first(&self) -> impl DoubleEndedIterator<Item = &DashboardEntry> {
        self.entries.iter().rev().map(|seen| &**seen)
    }

    /// Returns the conversation whose identifier is `id`, or the only one whose identifier begins with
    /// it.
    pub(super) fn find(&self, id: &str) -> Option<&DashboardEntry> {
        let mut found = self.newest_first().filter(|seen| seen.dto.id.starts_with(id));
        let first = found.next().filter(|_| !id.is_empty())?;
        found.next().is_none().then_some(first)
    }

    /// Returns the newest explanation of the conversation whose identifier begins with `id`, or of any,
    /// and notes failures since.
    pub(super) fn last_explanation(&self, id: Option<&str>) -> Option<ExplanationReport> {
        let newest = match id {
            Some(id) => self.find(id)?,
            None => self.newest_first().max_by_key(|seen| seen.explanation_time())?,
        };
        let mut report = newest.explanation(|_| true)?;
        let at = report.request.as_ref()?.at;
        let seen = self.newest_first();
        let seen = seen.filter(|seen| id.is_none() || seen.id == newest.id);
        let failures: Vec<_> = seen.flat_map(|seen| seen.failures_after(at)).collect();
        let last = failures.iter().max_by_key(|point| point.at);
        let which = if failures.len() == 1 { "request" } else { "requests, the newest" };
        report.newer = last.map(|last| {
            let status = last.status.map_or_else(|| "no status".into(), |it| it.to_string());
            let (count, fault) = (failures.len(), last.fault.as_deref().unwrap_or_default());
            let id = last.id;
            format!("{count} newer {which} failed without an explanation: {id}, {status} {fault}")
        });
        Some(report)
    }

    pub(super) fn get_mut(&mut self, id: ConversationId) -> Option<&mut DashboardEntry> {
        // The busiest conversations are the newest.
        let seen = self.entries.iter_mut().rev().find(|seen| seen.id == id);
        seen.map(|seen| &mut **seen)
    }

    /// Applies `change` to the conversation `id`.
    pub(super) fn change<T>(
        &mut self,
        id: ConversationId,
        change: impl FnOnce(&mut DashboardEntry) -> T,
    ) -> Option<T> {
        let revision = self.revision + 1;
        let seen = self.get_mut(id)?;
        seen.revision = revision;
        let changed = change(seen);
        self.revision = revision;
        Some(changed)
    }

    /// Makes the conversation `id` the newest, and applies `change` to it.
    pub(super) fn touch(
        &mut self,
        id: ConversationId,
        new: impl FnOnce() -> DashboardEntry,
        change: impl FnOnce(&mut DashboardEntry),
    ) {
        self.revision += 1;
        let at = self.entries.iter().rposition(|seen| seen.id == id);
        let known = at.and_then(|at| self.entries.remove(at));
        let mut seen = known.unwrap_or_else(|| Box::new(new()));
        seen.revision = self.revision;
        change(&mut seen);
        while self.entries.len() >= MAX_CONVERSATIONS {
            self.evict();
        }
        self.entries.push_back(seen);
    }

    /// Adds the newest request of the conversation `id` to the feed.
    pub(super) fn add_to_feed(&mut self, id: ConversationId) {
        let Some(seen) = self.get_mut(id) else { return };
        let (conversation, model) = (seen.dto.id.clone(), seen.dto.model.clone());
        let Some(point) = seen.newest_point() else { return };
        if self.feed.len() >= MAX_FEED {
            self.feed.pop_front();
        }
        self.feed.push_back((self.revision, FeedRow { conversation, model, point }));
    }

    /// Counts the weight of explanations, and drops old explanations if there are too many.
    pub(super) fn weigh(&mut self, added: usize, dropped: usize) {
        self.explanation_rows = (self.explanation_rows + added).saturating_sub(dropped);
        let newest = self.entries.len().saturating_sub(1);
        for (at, seen) in self.entries.iter_mut().enumerate() {
            if self.explanation_rows <= MAX_EXPLANATION_ROWS {
                return;
            }
            let keeps = if at == newest { MIN_EXPLANATIONS } else { 0 };
            self.explanation_rows =
                self.explanation_rows.saturating_sub(seen.forget_explanations(keeps));
        }
    }

    /// Drops all text of the conversations.
    pub(super) fn forget_content(&mut self) {
        let freed: usize = self.entries.iter_mut().map(|seen| seen.forget_content()).sum();
        self.explanation_rows = self.explanation_rows.saturating_sub(freed);
    }

    fn evict(&mut self) {
        let Some(mut oldest) = self.entries.pop_front() else {
            return;
        };
        let dropped = oldest.forget_explanations(0);
        self.explanation_rows = self.explanation_rows.saturating_sub(dropped);
        self.evicted_count += 1;
        if self.evicted.len() >= MAX_CONVERSATIONS {
            self.evicted.pop_front();
        }
        self.evicted.push_back((self.revision, oldest.dto.id.clone()));
    }
}
