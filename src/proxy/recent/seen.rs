//! One conversation, as it is kept: what is new in a request is all that is looked at.

use std::collections::VecDeque;
use std::sync::Arc;

use super::sighting::Arrival;
use super::told::{File, Point, Told, Whole};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::ledger::{Touch, touched};
use crate::rewrite::title::{BODY, TITLE, Title};
use crate::rewrite::wording;
use crate::wall_clock;

/// Requests that are shown of each, the last ones.
const POINTS: usize = 400;
/// Files that are shown of each, those that were touched last.
const FILES: usize = 100;
/// A model's name is a client's to choose.
const MODEL: usize = 100;

/// One conversation, as it is kept.
pub(super) struct Seen {
    pub(super) key: RecordKey,
    pub(super) told: Told,
    files: VecDeque<File>,
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
            files: VecDeque::new(),
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
    pub(super) fn whole(&self) -> Whole {
        Whole {
            told: self.told(),
            files: self.files.iter().rev().cloned().collect(),
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
        push(&mut self.points, POINTS, point);
    }

    /// Whether a request of which that much goes on has something done to it that was not done to the
    /// one before: what was cut off stays cut off, and only more of it is news.
    pub(super) fn is_rewritten(&self, before: u64, after: u64) -> bool {
        let last = self.points.back();
        last.map_or(before != after, |last| {
            before.saturating_sub(after) > last.before.saturating_sub(last.after)
        })
    }

    /// Takes in what is new in a request.
    pub(super) fn look(&mut self, arrival: &Arrival<'_>) {
        let conversation = arrival.conversation;
        let messages = conversation.messages();
        // A history that was taken back, or another branch of it.
        let from = if messages.len() < self.messages {
            0
        } else {
            self.messages
        };
        let users = |from: usize| {
            let new = messages.iter().skip(from);
            new.filter(|message| message.role.is_user())
        };
        if self.told.title.is_empty()
            && let Some(first) = users(0).next()
        {
            self.told.title = wording::one_line(&conversation.text(first), TITLE);
        }
        if let Some(last) = users(from).next_back() {
            self.told.body = wording::one_line(&conversation.text(last), BODY);
        }
        if from == 0 {
            self.files.clear();
        }
        touched(conversation, from..messages.len(), |path, touch| {
            self.touch(path, touch);
        });
        self.messages = messages.len();
        self.told.model = conversation.model().chars().take(MODEL).collect();
        self.told.window = u64::from(arrival.window.get());
        self.told.requests += 1;
        self.told.last = wall_clock::millis();
        self.summary.clone_from(&arrival.summary);
    }

    fn touch(&mut self, path: String, touch: Touch) {
        let at = self.files.iter().position(|file| file.path == path);
        let known = at.and_then(|at| self.files.remove(at));
        let mut file = known.unwrap_or_else(|| File {
            path,
            ..File::default()
        });
        let count = match touch {
            Touch::Created => &mut file.created,
            Touch::Deleted => &mut file.deleted,
            Touch::Modified => &mut file.modified,
            Touch::Read => &mut file.read,
        };
        *count += 1;
        push(&mut self.files, FILES, file);
    }
}

fn push<T>(to: &mut VecDeque<T>, most: usize, one: T) {
    while to.len() >= most {
        to.pop_front();
    }
    to.push_back(one);
}
