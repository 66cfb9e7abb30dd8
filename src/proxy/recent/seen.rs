//! One conversation, as it is kept.

use std::collections::VecDeque;
use std::sync::Arc;

use super::files::Files;
use super::news::{LookedAt, News};
use super::told::{Point, Told, ToldWhole};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::title::Title;
use crate::wall_clock;

/// Requests that are shown of each, the last ones.
const POINTS: usize = 400;

/// One conversation, as it is kept.
pub(super) struct Seen {
    pub(super) key: RecordKey,
    pub(super) told: Told,
    files: Files,
    points: VecDeque<Point>,
    /// How many of its messages were looked at.
    messages: usize,
    /// The text that stands for its history.
    summary: Option<Arc<str>>,
    /// What a model calls it.
    pub(super) title: Option<Arc<Title>>,
    /// Summaries that are being made.
    pub(super) compacting: Vec<u64>,
}

impl Seen {
    /// One of which nothing is known yet but what a model called it before.
    pub(super) fn new(key: RecordKey, title: Option<Arc<Title>>) -> Self {
        // Enough to tell some dozens apart, and nothing that a store could be asked by.
        let id = key.to_bytes().last_chunk().copied().unwrap_or_default();
        let id = format!("{:016x}", u64::from_be_bytes(id));
        Self {
            key,
            told: Told {
                id,
                ..Told::default()
            },
            files: Files::default(),
            points: VecDeque::new(),
            messages: 0,
            summary: None,
            title,
            compacting: Vec::new(),
        }
    }

    /// What the list tells of it.
    pub(super) fn told(&self) -> Told {
        let mut told = Told {
            compacting: self.compacting.iter().min().copied(),
            ..self.told.clone()
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
    pub(super) fn whole(&self) -> ToldWhole {
        ToldWhole {
            told: self.told(),
            files: self.files.shown(),
            points: self.points.iter().cloned().collect(),
            summary: self.summary.clone(),
        }
    }

    /// Its summary is not to be shown.
    pub(super) fn forget_summary(&mut self) {
        self.summary = None;
    }

    /// A request of it has ended.
    pub(super) fn end(&mut self, point: Point) {
        while self.points.len() >= POINTS {
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
    pub(super) fn known(&self) -> LookedAt {
        LookedAt {
            messages: self.messages,
            has_title: !self.told.title.is_empty(),
        }
    }

    /// Takes in what is new in a request, and the text that stands for its history.
    pub(super) fn take(&mut self, news: News, summary: Option<Arc<str>>) {
        // Where another request of it came in between, that one's files stand, and the next request
        // is looked at from there.
        if news.since == self.messages {
            if news.messages < self.messages {
                self.files = news.files;
            } else {
                self.files.append(news.files);
            }
            self.messages = news.messages;
        }
        if self.told.title.is_empty() {
            self.told.title = news.title.unwrap_or_default();
        }
        if let Some(body) = news.body {
            self.told.body = body;
        }
        self.told.model = news.model;
        self.told.window = news.window;
        self.told.requests += 1;
        self.told.last = wall_clock::millis();
        self.summary = summary;
    }
}
