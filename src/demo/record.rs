//! What a strict model was asked, and what became of it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::lock::Mutex;

/// The most bytes of bodies kept; past it the oldest records keep all but their body.
const BODY_BYTES: usize = 1 << 30;

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
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
pub enum ReplyCompletion {
    /// The client left before the end.
    Abandoned,
    /// It was sent whole, or broken off as the conduct wants it.
    Answered,
    /// It is still under way.
    Pending,
}

/// One request.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// Its path and query.
    pub target: String,
    /// Its headers.
    pub headers: http::HeaderMap,
    /// Its body as it came; empty if forgotten for the sake of newer ones.
    pub body: Bytes,
    /// What it was for.
    pub kind: RequestKind,
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
    pub ended: ReplyCompletion,
}

impl SeenRequest {
    /// Whether it repeats all of the last accepted chat request, so that no cached prefix is lost.
    pub fn keeps_prefix(&self) -> bool {
        self.shared_messages == self.previous_messages
    }
}

/// The records, and a bell for those who wait for one.
#[derive(Debug)]
pub(crate) struct RequestJournal {
    records: Mutex<JournalRecords>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct JournalRecords {
    seen: Vec<SeenRequest>,
    /// The bytes of all bodies that are kept.
    body_bytes: usize,
    /// How many records at the front have lost their body.
    without_body: usize,
}

impl JournalRecords {
    fn push(&mut self, seen: SeenRequest) -> usize {
        self.body_bytes += seen.body.len();
        self.seen.push(seen);
        while self.body_bytes > BODY_BYTES
            && let Some(oldest) = self.seen.get_mut(self.without_body)
        {
            self.body_bytes -= oldest.body.len();
            oldest.body = Bytes::new();
            self.without_body += 1;
        }
        self.seen.len() - 1
    }
}

impl Default for RequestJournal {
    fn default() -> Self {
        Self {
            records: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }
}

impl RequestJournal {
    pub(crate) fn all(&self) -> Vec<SeenRequest> {
        self.records.lock().seen.clone()
    }

    /// Writes a request down; the ticket says later how its reply ended.
    pub(crate) fn record(self: &Arc<Self>, seen: SeenRequest) -> ReplyGuard {
        let at = self.records.lock().push(seen);
        self.changed.send_replace(());
        ReplyGuard {
            log: Arc::clone(self),
            at,
            ended: ReplyCompletion::Abandoned,
        }
    }

    /// Waits until the records satisfy a condition; what they were then.
    pub(crate) async fn wait_for(
        &self,
        enough: impl Fn(&[SeenRequest]) -> bool,
    ) -> Vec<SeenRequest> {
        let mut bell = self.changed.subscribe();
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
pub(crate) struct ReplyGuard {
    log: Arc<RequestJournal>,
    at: usize,
    ended: ReplyCompletion,
}

impl ReplyGuard {
    /// Says that the reply is out.
    pub(crate) fn answered(&mut self) {
        self.ended = ReplyCompletion::Answered;
    }
}

impl Drop for ReplyGuard {
    fn drop(&mut self) {
        if let Some(seen) = self.log.records.lock().seen.get_mut(self.at) {
            seen.ended = self.ended;
        }
        self.log.changed.send_replace(());
    }
}
