//! Compaction by the provider: which requests it takes, and where the covered history may end.

use crate::conversation::{Conversation, HistoryKeeper, Role};
use crate::dialect::thinking_binding::{version_after, version_of, words_of};
use crate::dialect::{Dialect, dispatch};
use crate::units::tokens::Tokens;
use serde::Deserialize;
use serde_json::Value;
use std::ops::Range;

/// Models that compact, with their sources.
const MODELS: &str = include_str!("compacting_models.txt");

/// Items that a compaction loses, and that have to be stated again: updates of the configuration, and tools.
const RESTATED_ITEMS: [&str; 2] = [r#""configuration_update""#, r#""additional_tools""#];

/// Member of a request that no compaction may accompany.
const TASK_BUDGET: &str = r#""task_budget""#;

/// Readable text of an item.
#[derive(Deserialize)]
struct ReadableItem {
    content: String,
}

impl Dialect {
    /// Returns the body `forwarded`, truncated at byte `upto`, with the order to compact it. `None` if the
    /// provider would refuse the call.
    pub(crate) fn compaction_order(self, forwarded: &str, upto: usize) -> Option<String> {
        dispatch!(self, summary_request::compaction_order(forwarded, upto))
    }

    /// Returns the item that stands for history in later requests, made of that of the reply.
    pub fn compaction_in_place(self, item: &str) -> String {
        match self {
            Self::ChatCompletions | Self::Responses => item.to_owned(),
            Self::Messages => [r#"{"role":"assistant","content":["#, item, "]}"].concat(),
        }
    }

    /// Returns the text of the item of a reply; `None` for an item that only the provider can read.
    pub fn text_of_compaction(self, item: &str) -> Option<String> {
        let is_readable = self == Self::Messages;
        let item = is_readable.then(|| serde_json::from_str::<ReadableItem>(item));
        item?.ok().map(|it| it.content)
    }

    /// Returns the text of an item that stands for history, if anyone can read the item.
    pub fn text_in_place(self, message: &str) -> Option<String> {
        let is_readable = self == Self::Messages;
        let message: Value = serde_json::from_str(message).ok().filter(|_| is_readable)?;
        message.pointer("/content/0/content")?.as_str().map(str::to_owned)
    }

    /// Whether nothing may stand before the provider's item, which then hides what the user said.
    pub(crate) fn item_stands_first(self) -> bool {
        self == Self::Messages
    }

    /// Estimates an item that stands for history. `None` if no request can hold the item.
    pub fn tokens_of_compaction(self, item: &str) -> Option<Tokens> {
        let body = format!("{{\"{}\":[{item}]}}", self.facts().list_key);
        self.read(body.as_bytes()).ok().map(|it| it.tokens())
    }
}

impl Conversation<'_> {
    /// Returns the number of bytes that messages take.
    pub fn bytes_of(&self, messages: Range<usize>) -> usize {
        let span = |at: Option<usize>| self.object_span(at?);
        match (span(Some(messages.start)), span(messages.end.checked_sub(1))) {
            (Some(first), Some(last)) => last.end().saturating_sub(first.start()),
            _ => 0,
        }
    }

    /// Whether the provider compacts this conversation on order, as far as the model's name and the request show.
    pub fn is_compacted_by_provider(&self) -> bool {
        let model = self.model().to_ascii_lowercase();
        let rows = MODELS.lines().filter(|line| !line.starts_with('#'));
        let mut rows = rows.map(|line| line.split('\t'));
        let is_listed = rows.any(|mut row| {
            let is_api = row.next() == Some(self.dialect().name());
            let names: Vec<&str> = row.next().unwrap_or_default().split(',').collect();
            let first: Vec<&str> = row.next().unwrap_or_default().split('.').collect();
            is_api
                && version_after(&words_of(&model), &names)
                    >= version_of(&first).or(Some((u32::MAX, 0)))
        });
        let mut options = self.params().thinking.iter();
        let has_budget = options.any(|(_, it)| it.slice(self.body()).contains(TASK_BUDGET));
        // A compaction of the client's own is part of the head.
        let is_plain = self.head_len() == self.instructions_len();
        // No cloud with a path of its own documents the order.
        let has_own_path = self.params().path.is_some();
        let is_clients = self.params().history == HistoryKeeper::Client;
        is_listed && is_plain && !has_budget && !has_own_path && is_clients
    }

    /// Returns the first message that an item of the provider replaces, after a head of `pinned` messages.
    pub fn provider_item_from(&self, pinned: usize) -> usize {
        if self.dialect().item_stands_first() { 0 } else { pinned }
    }

    /// Returns the end of the history that the provider compacts if history has to end at `cut`. `None` if the
    /// thinking of the messages behind would not stay valid, or something would be lost.
    ///
    /// Anthropic's rules hold by themselves at the end of a request that was sent: a reply follows.
    pub fn provider_cut(&self, pinned: usize, cut: usize) -> Option<usize> {
        let from = self.provider_item_from(pinned);
        match self.dialect() {
            Dialect::Messages => {
                let points = self.request_points().take_while(|point| *point <= cut);
                let points = points.filter(|point| *point > pinned);
                let points = points.filter(|point| self.boundaries().binary_search(point).is_ok());
                points.filter(|point| self.is_reply(*point)).last()
            }
            Dialect::ChatCompletions | Dialect::Responses => {
                let start = self.message(from)?.span.start();
                let covered = self.body().get(start..self.message(cut)?.span.start())?;
                let mut restated = RESTATED_ITEMS.iter();
                (!restated.any(|item| covered.contains(item))).then_some(cut)
            }
        }
    }

    /// Whether an item that covers the messages before `until` may stand in this conversation.
    pub fn takes_provider_item(&self, until: usize) -> bool {
        self.dialect() != Dialect::Messages || self.is_reply(until)
    }

    fn is_reply(&self, at: usize) -> bool {
        self.message(at).is_some_and(|it| it.role == Role::Assistant)
    }
}

#[cfg(test)]
mod tests;
