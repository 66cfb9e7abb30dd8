//! The conversations of late, for the dashboard: what they are about and what was done to each.
//!
//! It is kept in memory, only where there is a page to show it on, and goes nowhere else. Everything
//! of it is bounded. What is new in a request is all that is looked at.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use serde::Serialize;

use super::bills::Spent;
use super::report::Report;
use super::titles::Titles;
use crate::metrics::Label as _;
use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::ledger::{Touch, touched};
use crate::rewrite::money::Usd;
use crate::rewrite::title::{BODY, TITLE, Title};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::wording;
use crate::summarise::Till;

/// Conversations that are shown; the one that was silent longest goes first.
const CONVERSATIONS: usize = 64;
/// Requests that are shown of each, the last ones.
const POINTS: usize = 400;
/// Files that are shown of each, those that were touched last.
const FILES: usize = 100;
/// A model's name is a client's to choose.
const MODEL: usize = 100;

/// The conversations of late. Nothing is kept until somebody shows it.
#[derive(Default)]
pub(crate) struct Recent {
    shown: AtomicBool,
    /// Oldest first.
    conversations: Mutex<VecDeque<Seen>>,
    /// What models call them, of more than are shown.
    titles: Titles,
}

/// One conversation, as it is kept.
struct Seen {
    key: RecordKey,
    told: Told,
    files: VecDeque<File>,
    points: VecDeque<Point>,
    /// How many of its messages were looked at.
    messages: usize,
    /// The text that stands for its history.
    summary: Option<Arc<str>>,
    /// What a model calls it.
    title: Option<Arc<Title>>,
    /// Summaries that are being made.
    compacting: Vec<u64>,
}

/// What the list tells of a conversation.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Told {
    /// What it is asked for by.
    pub(crate) id: String,
    /// What a model calls it, or how its first user message begins.
    pub(crate) title: String,
    /// What a model says of it, or how its last user message begins.
    pub(crate) body: String,
    pub(crate) model: String,
    /// What the model is taken to hold, in tokens.
    pub(crate) window: u64,
    pub(crate) requests: u64,
    /// Of all its requests that reached the upstream.
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    /// Calls for what was cleared before.
    pub(crate) rereads: u64,
    pub(crate) money: Spendings,
    /// When its last request came, in milliseconds since 1970, as everywhere here.
    pub(crate) last: u64,
    /// Since when a summary of it is being made.
    pub(crate) compacting: Option<u64>,
}

/// What a conversation cost and saved, in billionths of a dollar.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spendings {
    /// Its chats, as far as it is known.
    pub(crate) cost: Usd,
    /// Chats of which it is not.
    pub(crate) unknown: u64,
    /// What was taken out of them would have cost.
    pub(crate) saved: Usd,
    /// Tokens taken out whose price is not known.
    pub(crate) saved_unknown: u64,
    /// What was paid again after rewrites.
    pub(crate) rewrites: Usd,
    /// The calls for its summaries, as far as it is known.
    pub(crate) summaries: Usd,
    /// Calls of which it is not.
    pub(crate) summaries_unknown: u64,
    /// The calls for its titles, as far as it is known.
    pub(crate) titles: Usd,
}

/// All that is told of one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Whole {
    #[serde(flatten)]
    pub(crate) told: Told,
    pub(crate) files: Vec<File>,
    pub(crate) points: Vec<Point>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Arc<str>>,
}

/// A file, and how often it was touched in each way.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) read: u32,
    pub(crate) modified: u32,
    pub(crate) created: u32,
    pub(crate) deleted: u32,
}

/// One request.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// When it ended.
    pub(crate) at: u64,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) window: u64,
    pub(crate) status: Option<u16>,
    /// What was done to it.
    pub(crate) acts: Vec<&'static str>,
    /// Whether something was done to it that was not done to the one before.
    pub(crate) rewritten: bool,
}

/// A request that has arrived.
pub(super) struct Arrival<'a> {
    pub(super) conversation: &'a Conversation<'a>,
    pub(super) chains: &'a Chains,
    pub(super) window: Tokens,
    /// The text that stands for its history, if it may be shown.
    pub(super) summary: Option<Arc<str>>,
}

/// One conversation among the recent ones.
#[derive(Clone)]
pub(super) struct Sighting {
    recent: Arc<Recent>,
    key: RecordKey,
    window: Tokens,
}

/// While this lives, a summary of a conversation is being made; then what its calls cost is told.
pub(super) struct Compacting {
    sighting: Sighting,
    since: u64,
    till: Arc<Till>,
}

impl Recent {
    /// From now on there is somebody to show it to.
    pub(crate) fn show(&self) {
        self.shown.store(true, Ordering::Release);
    }

    /// The conversations, the newest first.
    pub(crate) fn list(&self) -> Vec<Told> {
        self.lock().iter().rev().map(Seen::told).collect()
    }

    /// All that is told of one of them.
    pub(crate) fn whole(&self, id: &str) -> Option<Whole> {
        let conversations = self.lock();
        let seen = conversations.iter().find(|seen| seen.told.id == id)?;
        Some(Whole {
            told: seen.told(),
            files: seen.files.iter().rev().cloned().collect(),
            points: seen.points.iter().cloned().collect(),
            summary: seen.summary.clone(),
        })
    }

    /// Takes a request in, where anybody looks.
    pub(super) fn arrive(self: &Arc<Self>, arrival: &Arrival<'_>) -> Option<Sighting> {
        if !self.shown.load(Ordering::Acquire) {
            return None;
        }
        let key = arrival.chains.oldest()?;
        let mut conversations = self.lock();
        let at = conversations.iter().position(|seen| seen.key == key);
        let mut seen = match at.and_then(|at| conversations.remove(at)) {
            Some(seen) => seen,
            None => Seen {
                title: self.titles.of(key),
                ..Seen::new(key)
            },
        };
        seen.look(arrival);
        while conversations.len() >= CONVERSATIONS {
            conversations.pop_front();
        }
        conversations.push_back(seen);
        Some(Sighting {
            recent: Arc::clone(self),
            key,
            window: arrival.window,
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Seen>> {
        // What is shown of a request whose handler panicked may be half of it, and harms nobody.
        self.conversations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sighting {
    /// The request has reached the upstream.
    pub(super) fn went_on(&self, report: &Report) {
        self.with(|seen| {
            seen.told.tokens_before += u64::from(report.before.get());
            seen.told.tokens_after += u64::from(report.after.get());
        });
    }

    /// The request has ended.
    pub(super) fn ended(&self, report: &Report, status: Option<StatusCode>, spent: Option<&Spent>) {
        let (before, after) = (
            u64::from(report.before.get()),
            u64::from(report.after.get()),
        );
        self.with(|seen| {
            let rewritten = seen.points.back().map_or(before != after, |last| {
                // What was cut off stays cut off: only more of it is news.
                before.saturating_sub(after) > last.before.saturating_sub(last.after)
            });
            if let Some(spent) = spent {
                seen.told.money.add(spent);
            }
            push(
                &mut seen.points,
                POINTS,
                Point {
                    at: now(),
                    before,
                    after,
                    window: u64::from(self.window.get()),
                    status: status.map(|status| status.as_u16()),
                    acts: report.acts().iter().map(|act| act.label()).collect(),
                    rewritten,
                },
            );
        });
    }

    /// So many of its newest calls ask for what was cleared.
    pub(super) fn reread(&self, calls: usize) {
        self.with(|seen| seen.told.rereads += calls as u64);
    }

    /// Whether a model is to say what the conversation is called, now that it has so many messages.
    /// If so it counts as asked.
    pub(super) fn wants_title(&self, messages: usize) -> bool {
        self.recent.titles.begin(self.key, messages)
    }

    /// The same, without asking.
    pub(super) fn lacks_title(&self, messages: usize) -> bool {
        self.recent.titles.lacks(self.key, messages)
    }

    /// A model was asked, and this is what it said, if anything, and what that cost.
    pub(super) fn titled(&self, title: Option<Title>, till: &Till) {
        let (paid, unknown) = till.total();
        let title = title.map(Arc::new);
        if let Some(title) = &title {
            self.recent.titles.say(self.key, Arc::clone(title));
        }
        self.with(|seen| {
            seen.told.money.titles += paid;
            seen.told.money.summaries_unknown += unknown;
            seen.title = title.or_else(|| seen.title.take());
        });
    }

    /// A summary of the conversation is being made from now on.
    pub(super) fn compacting(self, till: &Arc<Till>) -> Compacting {
        let since = now();
        self.with(|seen| seen.compacting.push(since));
        Compacting {
            sighting: self,
            since,
            till: Arc::clone(till),
        }
    }

    fn with(&self, change: impl FnOnce(&mut Seen)) {
        let mut conversations = self.recent.lock();
        if let Some(seen) = conversations.iter_mut().find(|seen| seen.key == self.key) {
            change(seen);
        }
    }
}

impl Drop for Compacting {
    fn drop(&mut self) {
        let since = self.since;
        let (paid, unknown) = self.till.total();
        self.sighting.with(|seen| {
            seen.told.money.summaries += paid;
            seen.told.money.summaries_unknown += unknown;
            if let Some(at) = seen.compacting.iter().position(|at| *at == since) {
                seen.compacting.swap_remove(at);
            }
        });
    }
}

impl Spendings {
    fn add(&mut self, spent: &Spent) {
        match spent.cost.known() {
            Some(usd) => self.cost += usd,
            None => self.unknown += 1,
        }
        self.saved += spent.bill.saved.unwrap_or_default();
        self.saved_unknown += u64::from(spent.unknown().get());
        self.rewrites += spent.bill.rewrite.unwrap_or_default();
    }
}

impl Seen {
    fn new(key: RecordKey) -> Self {
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
            title: None,
            compacting: Vec::new(),
        }
    }

    fn told(&self) -> Told {
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

    /// Takes in what is new in a request.
    fn look(&mut self, arrival: &Arrival<'_>) {
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
        self.told.last = now();
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

/// What time it is, in milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis().try_into().unwrap_or(u64::MAX))
}
