//! What a strict model was asked, and what became of it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::lock::Mutex;

/// The most bytes of bodies kept; past it the oldest records keep all but their body.
const BODY_BYTES: usize = 1 << 30;

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A chat completion.
    Chat,
    /// Anything else: another path or method.
    Other,
    /// A summary of a conversation.
    Summary,
}

/// How a model took a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Valid and within the window.
    Accepted,
    /// Against the rule of this name.
    Broken(&'static str),
    /// Larger than the window.
    Overflowed,
    /// Not looked at: another path or method, or no JSON object.
    Unread,
}

/// How the reply to a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client left before the end.
    Abandoned,
    /// It was sent whole, or broken off as the conduct wants it.
    Answered,
    /// It is still under way.
    Pending,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its path and query.
    pub target: String,
    /// Its headers.
    pub headers: http::HeaderMap,
    /// Its body as it came; empty if forgotten for the sake of newer ones.
    pub body: Bytes,
    /// What it was for.
    pub kind: Kind,
    /// How it was taken.
    pub verdict: Verdict,
    /// The status it was answered with; 0 while it hangs.
    pub status: u16,
    /// What its messages and tools come to, in tokens as the model counts.
    pub prompt_tokens: u64,
    /// How many of them stood at the front of an earlier accepted request.
    pub cached_tokens: u64,
    /// The output it asked for, in tokens, if it did.
    pub max_output: Option<u64>,
    /// How many messages it has.
    pub messages: usize,
    /// How many bytes at its front are the same in the last accepted chat request before it.
    pub shared_bytes: usize,
    /// How many messages at its front are the same there; under other tools none is.
    pub shared_messages: usize,
    /// How many messages that request had, 0 if there was none.
    pub previous_messages: usize,
    /// How the reply ended.
    pub ended: Ended,
}

impl Seen {
    /// Whether it repeats all of the last accepted chat request, so that no cached prefix is lost.
    pub fn keeps_prefix(&self) -> bool {
        self.shared_messages == self.previous_messages
    }
}

/// The records, and a bell for those who wait for one.
#[derive(Debug)]
pub(crate) struct Log {
    records: Mutex<Records>,
    rung: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Records {
    seen: Vec<Seen>,
    /// The bytes of all bodies that are kept.
    body_bytes: usize,
    /// How many records at the front have lost their body.
    forgotten: usize,
}

impl Records {
    fn push(&mut self, seen: Seen) -> usize {
        self.body_bytes += seen.body.len();
        self.seen.push(seen);
        while self.body_bytes > BODY_BYTES
            && let Some(oldest) = self.seen.get_mut(self.forgotten)
        {
            self.body_bytes -= oldest.body.len();
            oldest.body = Bytes::new();
            self.forgotten += 1;
        }
        self.seen.len() - 1
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            records: Mutex::default(),
            rung: watch::Sender::new(()),
        }
    }
}

impl Log {
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.records.lock().seen.clone()
    }

    /// Writes a request down; the ticket says later how its reply ended.
    pub(crate) fn enter(self: &Arc<Self>, seen: Seen) -> Ticket {
        let at = self.records.lock().push(seen);
        self.rung.send_replace(());
        Ticket {
            log: Arc::clone(self),
            at,
            ended: Ended::Abandoned,
        }
    }

    /// Waits until the records satisfy a condition; what they were then.
    pub(crate) async fn wait_for(&self, enough: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let mut bell = self.rung.subscribe();
        loop {
            let all = self.all();
            // The bell hangs in the log, so it rings as long as anyone can wait.
            if enough(&all) || bell.changed().await.is_err() {
                return all;
            }
        }
    }
}

/// The duty to say how a reply ended; dropped without a word, the client had left.
#[derive(Debug)]
pub(crate) struct Ticket {
    log: Arc<Log>,
    at: usize,
    ended: Ended,
}

impl Ticket {
    /// Says that the reply is out.
    pub(crate) fn answered(&mut self) {
        self.ended = Ended::Answered;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(seen) = self.log.records.lock().seen.get_mut(self.at) {
            seen.ended = self.ended;
        }
        self.log.rung.send_replace(());
    }
}
