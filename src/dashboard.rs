//! Recent conversations for the dashboard: their subject, and what was done to each.
//!
//! The data is bounded, and is collected only if the dashboard is served.

pub(crate) mod days;
pub(crate) mod dto;
pub(crate) mod entry;
pub(crate) mod handle;
pub(crate) mod set_prices;
pub(crate) mod shared;
mod shown;
#[cfg(test)]
mod tests;

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use crate::explanation::report::ExplanationReport;
use crate::explanation::{ConversationId, RequestId};
use crate::wall_clock;
use days::{DayNumbers, DayRow, DayTotals};
use dto::ConversationDetails;
pub(crate) use dto::{ConversationDto, RequestPoint};
use entry::DashboardEntry;
pub(crate) use handle::{DashboardHandle, DashboardRequest, EndedRequest};
use longhaul_core::units::scope::RecordKey;
use set_prices::SetPrices;
pub(crate) use shown::ListChange;
use shown::ShownConversations;

/// Recent conversations. Nothing is collected until [`enable`](Self::enable) was called.
#[derive(Default)]
pub(crate) struct RecentConversations {
    enabled: AtomicBool,
    /// Whether the text of summaries and results must be hidden, even from requests that began before
    /// the change. Written and read under the lock, so that no request can slip in between.
    content_hidden: AtomicBool,
    conversations: Mutex<ShownConversations>,
    /// Totals by day and model that no file has.
    days: Mutex<DayTotals>,
    /// Totals that are being written.
    written_days: Mutex<DayTotals>,
    pub(crate) prices: SetPrices,
    outage: Mutex<Option<Outage>>,
    /// Revision of the conversations, for viewers that wait for a change.
    revision: watch::Sender<u64>,
}

/// An upstream that no request reaches.
#[derive(Clone, Serialize)]
pub(crate) struct Outage {
    origin: String,
    /// Message of the last fault.
    message: String,
    /// Time of the first fault in a row, in milliseconds since 1970.
    since: u64,
}

impl RecentConversations {
    pub(crate) fn enable(&self) {
        self.enabled.store(true, Ordering::Release);
    }

    /// Notifies the viewers: another longhaul of the user has started.
    pub(crate) fn notify(&self) {
        self.revision.send_modify(|_| ());
    }

    /// Returns a receiver that is notified of every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Returns the conversations that changed after `revision`, newest first.
    pub(crate) fn changes_since(&self, revision: u64) -> ListChange {
        self.conversations.lock().changes_since(revision)
    }

    /// Returns the details of one conversation, with its requests after number `after`. The beginning
    /// of an identifier suffices, if no other conversation has it.
    pub(crate) fn details(&self, id: &str, after: u64) -> Option<ConversationDetails> {
        let conversations = self.conversations.lock();
        Some(conversations.find(id)?.to_details(after))
    }

    /// Returns the details of all conversations, newest first.
    pub(crate) fn all_details(&self) -> Vec<ConversationDetails> {
        let conversations = self.conversations.lock();
        conversations.newest_first().map(|seen| seen.to_details(0)).collect()
    }

    /// Returns the newest explanation that is kept: of conversation `id`, or of any.
    pub(crate) fn last_explanation(&self, id: Option<&str>) -> Option<ExplanationReport> {
        self.conversations.lock().last_explanation(id)
    }

    pub(crate) fn explanation(&self, id: RequestId) -> Option<ExplanationReport> {
        let conversations = self.conversations.lock();
        let mut all = conversations.newest_first();
        all.find_map(|seen| seen.explanation(|point| point.id == id))
    }

    /// Returns the totals by day and model that no file has.
    pub(crate) fn days(&self) -> Vec<DayRow> {
        let writing = self.written_days.lock();
        [writing.rows(), self.days.lock().rows()].concat()
    }

    /// Adds those totals to the ones that the file `kept`, and writes all.
    pub(crate) fn exchange_days(
        &self,
        kept: Vec<DayRow>,
        write: &dyn Fn(Vec<DayRow>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.written_days.lock().add(mem::take(&mut *self.days.lock()).rows());
        let mut all = DayTotals::default();
        all.add(kept);
        all.add(self.written_days.lock().rows());
        write(all.rows())?;
        *self.written_days.lock() = DayTotals::default();
        Ok(())
    }

    /// Returns the conversations without any of their text, oldest first.
    pub(crate) fn rows(&self) -> Vec<ConversationDto> {
        self.conversations.lock().newest_first().rev().map(DashboardEntry::to_row).collect()
    }

    /// Restores conversations of an earlier process, oldest first.
    pub(crate) fn restore_rows(&self, rows: Vec<ConversationDto>) {
        for entry in rows.into_iter().filter_map(DashboardEntry::from_row) {
            self.change(|conversations, _| conversations.touch(entry.id, || entry, |_| ()));
        }
    }

    /// Returns identifier, title and last message of each conversation; none if text must be hidden.
    pub(crate) fn titles(&self) -> Vec<[String; 3]> {
        let conversations = self.conversations.lock();
        let shown = conversations.newest_first().filter(|_| self.shows_content());
        shown
            .map(|seen| [&seen.dto.id, &seen.dto.title, &seen.dto.body].map(String::clone))
            .collect()
    }

    /// Restores texts of an earlier process, unless text must be hidden.
    pub(crate) fn restore_titles(&self, rows: Vec<[String; 3]>) {
        for [id, title, body] in rows.into_iter().filter(|_| self.shows_content()) {
            if let Some(id) = ConversationId::parse(&id) {
                self.update(id, |seen| (seen.dto.title, seen.dto.body) = (title, body));
            }
        }
    }

    /// Sets whether the text of summaries and results may be shown. If not, the stored text is dropped.
    pub(crate) fn set_content_visible(&self, shown: bool) {
        let mut conversations = self.conversations.lock();
        self.content_hidden.store(!shown, Ordering::Relaxed);
        if !shown {
            conversations.forget_content();
        }
    }

    pub(crate) fn shows_content(&self) -> bool {
        !self.content_hidden.load(Ordering::Relaxed)
    }

    /// Has the next request of a conversation compacted.
    pub(crate) fn compact_next(&self, id: ConversationId) {
        self.update(id, |seen| seen.dto.compacts_next = true);
    }

    /// Records that the agent read an original of the conversation whose kept texts have the key `list`.
    pub(crate) fn record_recall(&self, list: RecordKey) {
        self.change(|conversations, _| {
            let found = conversations.newest_first().find(|seen| seen.kept_keys.contains(&list));
            let id = found.map(|seen| seen.id);
            id.and_then(|id| conversations.change(id, |seen| seen.dto.rereads += 1))
        });
    }

    /// Records a request; `None` if collecting is not enabled.
    pub(crate) fn record_request(
        self: &Arc<Self>,
        arrival: DashboardRequest<'_>,
    ) -> Option<DashboardHandle> {
        if !self.enabled.load(Ordering::Acquire) {
            return None;
        }
        let id = ConversationId::new(arrival.prefix_keys.first_key()?);
        let has_title = {
            let mut conversations = self.conversations.lock();
            conversations.get_mut(id).is_some_and(|seen| seen.has_title())
        };
        // A long history takes time to read, so it is read outside the lock.
        let conversation = arrival.conversation;
        let title = if has_title { None } else { entry::title(conversation) };
        let (body, model) = (entry::body(conversation), entry::model(conversation));
        let mut handle = DashboardHandle {
            recent: Arc::clone(self),
            id,
            window: arrival.window,
            model: (&*model).into(),
            cached_price: arrival.cached_price,
            compacts: false,
        };
        self.change(|conversations, hidden| {
            let new = || DashboardEntry::new(id);
            let news = (title, body, model);
            let apply = |seen: &mut DashboardEntry| {
                handle.compacts = seen.apply(arrival, news, hidden);
            };
            conversations.touch(id, new, apply);
        });
        Some(handle)
    }

    /// Records the end of a request. `change` returns the weight of explanations added and dropped.
    fn record_end(
        &self,
        id: ConversationId,
        change: impl FnOnce(&mut DashboardEntry, bool) -> (usize, usize),
    ) {
        self.change(|conversations, hidden| {
            let changed = conversations.change(id, |seen| change(seen, hidden));
            if let Some((added, dropped)) = changed {
                conversations.weigh(added, dropped);
                conversations.add_to_feed(id);
            }
        });
    }

    /// Applies `change` to the totals of `model` in this hour.
    fn record_total(&self, model: &str, change: impl FnOnce(&mut DayNumbers)) {
        change(self.days.lock().at(wall_clock::unix_millis(), model));
    }

    /// Records that no request reaches the upstream at `origin`, for the reason in `message`.
    pub(crate) fn record_outage(&self, origin: &str, message: &str) {
        let mut outage = self.outage.lock();
        let known = outage.take().filter(|outage| outage.origin == origin);
        let since = known.map_or_else(wall_clock::unix_millis, |outage| outage.since);
        *outage = Some(Outage { origin: origin.into(), message: message.into(), since });
        drop(outage);
        self.notify();
    }

    /// Records that the upstream at `origin` has answered.
    pub(crate) fn end_outage(&self, origin: impl FnOnce() -> String) {
        let mut outage = self.outage.lock();
        if outage.as_ref().is_some_and(|outage| outage.origin == origin()) {
            *outage = None;
            drop(outage);
            self.notify();
        }
    }

    pub(crate) fn outage(&self) -> Option<Outage> {
        self.outage.lock().clone()
    }

    /// Applies `change` to the conversation `id`, if it is known.
    fn update(&self, id: ConversationId, change: impl FnOnce(&mut DashboardEntry)) {
        self.change(|conversations, _| conversations.change(id, change));
    }

    /// Applies `change` and notifies the viewers. The second argument is whether text must be hidden.
    fn change<T>(&self, change: impl FnOnce(&mut ShownConversations, bool) -> T) -> T {
        let mut conversations = self.conversations.lock();
        let hidden = self.content_hidden.load(Ordering::Relaxed);
        let changed = change(&mut conversations, hidden);
        let revision = conversations.revision;
        drop(conversations);
        self.revision.send_replace(revision);
        changed
    }
}
