//! One conversation, as it is kept.

use std::collections::VecDeque;
use std::sync::Arc;

use super::files::TouchedFiles;
use super::news::{ReadProgress, RequestDelta};
use super::told::{ConversationDetails, ConversationDto, RequestPoint};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::title::Title;
use crate::wall_clock;

/// Requests that are shown of each, the last ones.
const MAX_POINTS: usize = 400;

/// One conversation, as it is kept.
pub(super) struct DashboardEntry {
    pub(super) key: RecordKey,
    pub(super) dto: ConversationDto,
    files: TouchedFiles,
    points: VecDeque<RequestPoint>,
    /// How many of its messages were looked at.
    messages: usize,
    /// The text that stands for its history.
    summary: Option<Arc<str>>,
    /// What a model calls it.
    pub(super) title: Option<Arc<Title>>,
    /// Summaries that are being made.
    pub(super) compacting: Vec<u64>,
}

impl DashboardEntry {
    /// One of which nothing is known yet but what a model called it before.
    pub(super) fn new(key: RecordKey, title: Option<Arc<Title>>) -> Self {
        // Enough to tell some dozens apart, and nothing that a store could be asked by.
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

    /// What the list tells of it.
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

    /// All that is told of it.
    pub(super) fn to_details(&self) -> ConversationDetails {
        ConversationDetails {
            conversation: self.to_dto(),
            files: self.files.most_recent(),
            points: self.points.iter().cloned().collect(),
            summary: self.summary.clone(),
        }
    }

    /// Its summary is not to be shown.
    pub(super) fn forget_summary(&mut self) {
        self.summary = None;
    }

    /// A request of it has ended.
    pub(super) fn record_end(&mut self, point: RequestPoint) {
        while self.points.len() >= MAX_POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Whether a request of which that much goes on has something done to it that was not done to the
    /// one before: what was cut off stays cut off, and only more of it is news.
    pub(super) fn is_rewritten(&self, before: u64, after: u64) -> bool {
        let last = self.points.back();
        last.map_or(before != after, |last| {
            before.saturating_sub(after) > last.before.saturating_sub(last.after)
        })
    }

    /// How far it was looked at.
    pub(super) fn progress(&self) -> ReadProgress {
        ReadProgress {
            messages: self.messages,
            has_title: !self.dto.title.is_empty(),
        }
    }

    /// Takes in what is new in a request, and the text that stands for its history.
    pub(super) fn apply(&mut self, news: RequestDelta, summary: Option<Arc<str>>) {
        // Where another request of it came in between, that one's files stand, and the next request
        // is looked at from there.
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
