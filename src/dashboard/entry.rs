//! Dashboard state of one conversation.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::dashboard::dto::{ConversationDetails, ConversationDto, RequestPoint};
use crate::dashboard::request_delta::{ReadProgress, RequestDelta};
use crate::dashboard::touched_files::TouchedFiles;
use crate::wall_clock;
use longhaul_core::summary::title::Title;
use longhaul_core::units::scope::RecordKey;

/// Maximum requests shown of each conversation, the most recent ones.
const MAX_POINTS: usize = 400;

/// Dashboard state of one conversation.
pub(super) struct DashboardEntry {
    pub(super) key: RecordKey,
    pub(super) dto: ConversationDto,
    files: TouchedFiles,
    points: VecDeque<RequestPoint>,
    /// Number of messages read.
    messages: usize,
    /// Summary that replaces the history.
    summary: Option<Arc<str>>,
    /// Title by a model.
    pub(super) title: Option<Arc<Title>>,
    /// Start times of the summaries being made.
    pub(super) compacting: Vec<u64>,
}

impl DashboardEntry {
    /// Creates the entry of a new conversation, with an earlier title if there is one.
    pub(super) fn new(key: RecordKey, title: Option<Arc<Title>>) -> Self {
        // Long enough to distinguish some dozens of conversations, and useless as a key of the
        // store.
        let id = key.to_bytes().last_chunk().copied().unwrap_or_default();
        let id = format!("{:016x}", u64::from_be_bytes(id));
        Self {
            key,
            dto: ConversationDto {
                id,
                ..ConversationDto::default()
            },
            files: TouchedFiles::default(),
            points: VecDeque::new(),
            messages: 0,
            summary: None,
            title,
            compacting: Vec::new(),
        }
    }

    /// Returns the list entry.
    pub(super) fn to_dto(&self) -> ConversationDto {
        let mut told = ConversationDto {
            compacting: self.compacting.iter().min().copied(),
            ..self.dto.clone()
        };
        if let Some(Title { title, body }) = self.title.as_deref() {
            told.title.clone_from(title);
            if !body.is_empty() {
                told.body.clone_from(body);
            }
        }
        told
    }

    /// Returns the details.
    pub(super) fn to_details(&self) -> ConversationDetails {
        ConversationDetails {
            conversation: self.to_dto(),
            files: self.files.most_recent(),
            points: self.points.iter().cloned().collect(),
            summary: self.summary.clone(),
        }
    }

    /// Drops the summary, which must not be shown.
    pub(super) fn forget_summary(&mut self) {
        self.summary = None;
    }

    /// Records a request that has ended.
    pub(super) fn record_end(&mut self, point: RequestPoint) {
        while self.points.len() >= MAX_POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Whether longhaul removed more from a request of these sizes than from the one before. Text
    /// that was removed before is removed from every later request too, so only a larger difference
    /// counts.
    pub(super) fn is_rewritten(&self, before: u64, after: u64) -> bool {
        let last = self.points.back();
        last.map_or(before != after, |last| {
            before.saturating_sub(after) > last.before.saturating_sub(last.after)
        })
    }

    /// Returns how much of the conversation was read.
    pub(super) fn progress(&self) -> ReadProgress {
        ReadProgress {
            messages: self.messages,
            has_title: !self.dto.title.is_empty(),
        }
    }

    /// Applies the changes of a request, and the summary that replaces its history.
    pub(super) fn apply(&mut self, news: RequestDelta, summary: Option<Arc<str>>) {
        // If another request of the conversation came in between, that request's files are kept,
        // and the next request is read from there.
        if news.messages_before == self.messages {
            if news.messages < self.messages {
                self.files = news.files;
            } else {
                self.files.append(news.files);
            }
            self.messages = news.messages;
        }
        if self.dto.title.is_empty() {
            self.dto.title = news.title.unwrap_or_default();
        }
        if let Some(body) = news.body {
            self.dto.body = body;
        }
        self.dto.model = news.model;
        self.dto.window = news.window;
        self.dto.requests += 1;
        self.dto.last = wall_clock::unix_millis();
        self.summary = summary;
    }
}
