//! Records of the requests to a strict model and their outcomes.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use parking_lot::Mutex;

/// The maximum bytes of bodies kept. Beyond it, the oldest records lose their bodies.
const BODY_BYTES: usize = 1 << 30;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A chat completion.
    Chat,
    /// Anything else: another path or method.
    Other,
    /// A summary of a conversation.
    Summary,
}

/// The model's verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Valid and within the window.
    Accepted,
    /// A violation of the named rule.
    Broken(&'static str),
    /// Larger than the window.
    Overflowed,
    /// Not examined: another path or method, or not a JSON object.
    Unread,
}

/// The end of the reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyCompletion {
    /// The client left before the end.
    Abandoned,
    /// The reply was sent whole, or broken off as the conduct requires.
    Answered,
    /// The reply is still in progress.
    Pending,
}

/// A request to the model.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    /// The path and query.
    pub target: String,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body as received; empty if dropped in favour of newer ones.
    pub body: Bytes,
    /// The purpose.
    pub kind: RequestKind,
    /// The model's verdict.
    pub verdict: Verdict,
    /// The status of the reply; 0 while the request hangs.
    pub status: u16,
    /// Tokens of the messages and tools, as the model counts.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that the provider's cache held.
    pub cached_tokens: u64,
    /// Tokens of the prompt that the provider stored in its cache, if storing has a price.
    pub cache_written_tokens: u64,
    /// The requested output limit in tokens, if any.
    pub max_output: Option<u64>,
    /// The number of messages.
    pub messages: usize,
    /// Leading bytes that are the same in the previous accepted chat request.
    pub shared_bytes: usize,
    /// Leading messages that are the same in that request; 0 if the tools differ.
    pub shared_messages: usize,
    /// The number of messages of that request, 0 if there was none.
    pub previous_messages: usize,
    /// The reasoning that the model dropped because it does not hold. Empty for a refused request.
    pub dropped: Vec<DroppedReasoning>,
    /// Rules that the request breaks and that the provider does not report, by name.
    pub flags: Vec<&'static str>,
    /// The end of the reply.
    pub ended: ReplyCompletion,
}

/// An item of reasoning that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedReasoning {
    /// The sealed content, or else the id.
    pub key: String,
    /// The id, if the item has one.
    pub id: Option<String>,
    /// The index of the item or message in the request, and of the block in the message.
    pub place: (usize, usize),
    /// The reason, in the words of the API.
    pub reason: &'static str,
}

impl SeenRequest {
    /// Whether the request repeats all of the previous accepted chat request, so that no cached
    /// prefix is lost.
    pub fn keeps_prefix(&self) -> bool {
        self.shared_messages == self.previous_messages
    }
}

/// The records and a notification channel for tasks that wait for one.
#[derive(Debug)]
pub(crate) struct RequestJournal {
    records: Mutex<JournalRecords>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct JournalRecords {
    seen: Vec<SeenRequest>,
    /// The bytes of all bodies kept.
    body_bytes: usize,
    /// The number of oldest records without their body.
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
        Self { records: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl RequestJournal {
    pub(crate) fn all(&self) -> Vec<SeenRequest> {
        self.records.lock().seen.clone()
    }

    /// Records a request. The returned guard later records how the reply ended.
    pub(crate) fn record(self: &Arc<Self>, seen: SeenRequest) -> ReplyGuard {
        let at = self.records.lock().push(seen);
        self.changed.send_replace(());
        ReplyGuard { log: Arc::clone(self), at, ended: ReplyCompletion::Abandoned }
    }

    /// Waits until the records satisfy `enough` and returns them.
    pub(crate) async fn wait_for(
        &self,
        enough: impl Fn(&[SeenRequest]) -> bool,
    ) -> Vec<SeenRequest> {
        let mut changes = self.changed.subscribe();
        loop {
            let all = self.all();
            // The log owns the sender, so the channel stays open while anyone waits.
            if enough(&all) || changes.changed().await.is_err() {
                return all;
            }
        }
    }
}

/// A guard that records the end of a reply. If dropped before [`Self::answered`], the client has
/// left.
#[derive(Debug)]
pub(crate) struct ReplyGuard {
    log: Arc<RequestJournal>,
    at: usize,
    ended: ReplyCompletion,
}

impl ReplyGuard {
    /// Marks the reply as sent.
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
