//! Reads the end of a relayed reply: token counts, finish reason and errors.

mod event_start;
mod stream_ends;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::dialect::Dialect;
use crate::dialect::reply::{EndFacts, EventKind, FinishReason};
use crate::dialect::usage::Usage;
use crate::overflow::body_format::BodyFormat;
use crate::overflow::{ClassifierRules, RequestFacts, RuleSet, Verdict, classify_stated_error};
use crate::sse::{Event, for_each_event};
use event_start::EventStart;

/// Maximum number of bytes kept from one reply while it passes. The bound is several times the
/// longest final events in use, which contain filter results, timings or a wrapped error.
pub const TAIL_BYTES: usize = 4 * 1024;

/// Maximum number of bytes kept from the start of a reply whose first event counts the prompt. That
/// event has a few hundred bytes; gateways send comments before it.
const START_BYTES: usize = 2 * 1024;

/// Output of a reply that ends without a text, in tokens: some servers count the mark of the end.
pub(super) const END_MARK: u32 = 1;

/// Buffer of the last bytes of a successful reply while it passes. The buffer allocates nothing
/// before the first byte, and never more than [`TAIL_BYTES`].
#[derive(Debug)]
pub struct ReplyTail {
    dialect: Dialect,
    buffer: VecDeque<u8>,
    /// First bytes of the reply, in dialects whose first event counts the prompt.
    start: Vec<u8>,
    /// Start of the last event, if the dialect's last event may be longer than `buffer`.
    event_start: EventStart,
    /// Whether bytes before `buffer` were discarded.
    is_truncated: bool,
    /// Format of the reply, once known. Bytes of frames and of [`BodyFormat::Other`] are not kept.
    format: Option<BodyFormat>,
}

/// Facts from the end of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyEnd {
    /// Usage reported by the provider; the last report counts.
    pub usage: Option<Usage>,
    /// Finish reason of the reply.
    pub finish: Option<FinishReason>,
    /// Whether the reply had content, or counted more output than the mark of an end. A reply whose beginning was discarded
    /// is assumed to have had content.
    pub has_content: bool,
    /// Classification of the reply's errors; [`Verdict::Fine`] if there are none.
    pub verdict: Verdict,
}

impl ReplyTail {
    /// Creates the buffer of a reply in this dialect.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            buffer: VecDeque::new(),
            start: Vec::new(),
            event_start: EventStart::new(dialect.facts().event_start_bytes),
            is_truncated: false,
            format: None,
        }
    }

    /// Adds the next decompressed bytes. The result does not depend on how the bytes are split into
    /// chunks.
    pub fn push(&mut self, chunk: &[u8]) {
        let chunk = match self.format {
            Some(_) => chunk,
            None => self.detect_format(chunk),
        };
        match self.format {
            Some(BodyFormat::Json | BodyFormat::Stream) => {}
            Some(BodyFormat::Frames | BodyFormat::Other) | None => return,
        }
        if self.dialect.facts().counts_prompt_first {
            let room = START_BYTES.saturating_sub(self.start.len());
            self.start.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
        }
        self.event_start.push(chunk);
        let skipped = chunk.len().saturating_sub(TAIL_BYTES);
        let chunk = chunk.get(skipped..).unwrap_or_default();
        let over = (self.buffer.len() + chunk.len()).saturating_sub(TAIL_BYTES);
        self.is_truncated |= over > 0 || skipped > 0;
        self.buffer.drain(..over);
        self.reserve(chunk.len());
        self.buffer.extend(chunk);
    }

    /// Reserves room by doubling, as a vector does, but never beyond [`TAIL_BYTES`].
    fn reserve(&mut self, more: usize) {
        let needed = self.buffer.len() + more;
        if needed > self.buffer.capacity() {
            let room = needed.max(self.buffer.capacity() * 2).min(TAIL_BYTES);
            self.buffer.reserve_exact(room - self.buffer.len());
        }
    }

    /// Returns the facts from the end of the reply; `rules` classify its errors. Where no rule applies, the
    /// facts about the request decide, if there are any.
    pub fn finish(mut self, rules: &ClassifierRules, facts: Option<RequestFacts<'_>>) -> ReplyEnd {
        let rules = RuleSet { table: rules, facts };
        let dialect = self.dialect;
        let kept = &*self.buffer.make_contiguous();
        let mut reply_end = ReplyEnd::unread(self.is_truncated);
        match (self.format, self.is_truncated) {
            (Some(BodyFormat::Json), false) => reply_end.read(dialect, Event::unnamed(kept), rules),
            (Some(BodyFormat::Json), true) => reply_end.read_facts(dialect, kept),
            (Some(BodyFormat::Stream), lost_head) => {
                if lost_head {
                    reply_end.read_cut_event(dialect, self.event_start.last(), kept);
                }
                reply_end.read_stream(dialect, events_with_start(kept, lost_head), rules);
                if dialect.facts().counts_prompt_first {
                    reply_end.complete_usage(dialect, &self.start);
                }
            }
            // Frames are relayed unread behind the first.
            (Some(BodyFormat::Frames), _) => reply_end.has_content = true,
            // An HTML page or a line of text is never an answer.
            (Some(BodyFormat::Other), _) => reply_end.verdict = Verdict::Failed,
            (None, _) => {}
        }
        reply_end
    }

    /// Whether a stream is complete, even if its body has not ended: after `[DONE]`, or once both
    /// finish reason and usage are known.
    pub fn is_complete(&self) -> bool {
        if self.format != Some(BodyFormat::Stream) {
            return false;
        }
        let kept: Vec<u8> = self.buffer.iter().copied().collect();
        let (mut is_done, mut reply_end) = (false, ReplyEnd::unread(false));
        if self.is_truncated {
            reply_end.read_cut_event(self.dialect, self.event_start.last(), &kept);
        }
        for_each_event(events_with_start(&kept, self.is_truncated), |event| {
            is_done |= self.dialect.classify_event(event).kind == EventKind::Done;
            reply_end.read_facts(self.dialect, event.data);
        });
        is_done || (reply_end.finish.is_some() && reply_end.usage.is_some())
    }

    /// Detects the format and returns the rest of `chunk` after the blank bytes.
    fn detect_format<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let (form, rest) = BodyFormat::detect(chunk).unzip();
        self.format = form;
        rest.unwrap_or_default()
    }
}

impl ReplyEnd {
    /// Creates the state before anything was read.
    fn unread(has_content: bool) -> Self {
        Self { usage: None, finish: None, has_content, verdict: Verdict::Fine }
    }

    /// Reads a stream: the events at both ends, and those in between only if they may add a fact.
    fn read_stream(&mut self, dialect: Dialect, events: &[u8], rules: RuleSet<'_>) {
        let first = if self.has_content { 0 } else { stream_ends::first_events_len(events) };
        let (first, rest) = events.split_at_checked(first).unwrap_or((events, &[]));
        for_each_event(first, |event| self.read(dialect, event, rules));
        let (between, last) =
            rest.split_at_checked(stream_ends::last_events_start(rest)).unwrap_or_default();
        let mut ended = Self { usage: None, finish: None, ..*self };
        for_each_event(last, |event| ended.read(dialect, event, rules));
        // If a fact is stated more than once, the last statement counts.
        let later = EndFacts { finish: ended.finish, usage: ended.usage };
        let tells_all = !dialect.may_add_to_end(between, later) && stream_ends::is_plain(between);
        if !self.has_content || !tells_all {
            return for_each_event(rest, |event| self.read(dialect, event, rules));
        }
        let full = self.finish.filter(|finish| *finish == FinishReason::WindowFull);
        *self = Self {
            usage: later_usage(self.usage, ended.usage),
            finish: full.or(ended.finish).or(self.finish),
            ..ended
        };
    }

    fn read(&mut self, dialect: Dialect, event: Event<'_>, rules: RuleSet<'_>) {
        self.read_facts(dialect, event.data);
        if self.has_content && !may_be_error(event) {
            return;
        }
        match dialect.classify_event(event).kind {
            EventKind::Content => self.has_content = true,
            EventKind::Done | EventKind::Empty | EventKind::Usage => {}
            EventKind::Error => {
                // Words behind content may be content.
                let facts = rules.facts.filter(|_| !self.has_content);
                let rules = RuleSet { facts, ..rules };
                let verdict = classify_stated_error(dialect, event, rules);
                let is_vague = verdict == Verdict::Failed && self.verdict != Verdict::Fine;
                if verdict != Verdict::Fine && !is_vague {
                    self.verdict = verdict;
                }
            }
        }
    }

    /// Adds the prompt that the first events of a stream count. A usage without a prompt is ignored.
    fn complete_usage(&mut self, dialect: Dialect, start: &[u8]) {
        let mut first = Self::unread(false);
        for_each_event(start, |event| first.read_facts(dialect, event.data));
        let usage = later_usage(first.usage, self.usage);
        self.usage = usage.filter(Usage::counts_prompt);
    }

    /// Reads the facts of a last event whose beginning is not kept, from its first bytes and the kept
    /// end. Does nothing if the event starts within the kept end, or does not end the stream.
    fn read_cut_event(&mut self, dialect: Dialect, start: &[u8], kept: &[u8]) {
        if let Some(finish) = dialect.finish_from_start(start) {
            let json_end = kept.iter().rposition(|&byte| byte == b'}').map_or(0, |at| at + 1);
            self.read_facts(dialect, kept.get(..json_end).unwrap_or_default());
            self.finish = Some(finish);
        }
    }

    /// Reads the facts near the top of a JSON text, which may lack its beginning.
    fn read_facts(&mut self, dialect: Dialect, json: &[u8]) {
        let EndFacts { finish, usage } = dialect.read_end(json);
        self.usage = later_usage(self.usage, usage);
        let generated = self.usage.and_then(|usage| usage.output);
        self.has_content |= generated.is_some_and(|tokens| tokens > END_MARK);
        if self.finish != Some(FinishReason::WindowFull) {
            self.finish = finish.or(self.finish);
        }
    }
}

/// Returns the later of two reports of usage, with the prompt of the earlier one if the later does
/// not count it.
fn later_usage(earlier: Option<Usage>, later: Option<Usage>) -> Option<Usage> {
    later.map(|usage| usage.completed_by(earlier)).or(earlier)
}

/// Returns the events whose beginning is kept.
///
/// Of a stream whose head was lost, these begin after the first empty line.
fn events_with_start(kept: &[u8], lost_head: bool) -> &[u8] {
    if !lost_head {
        return kept;
    }
    let ends: [&[u8]; 3] = [b"\n\n", b"\n\r\n", b"\r\r"];
    let behind = memchr::memchr2_iter(b'\n', b'\r', kept).find_map(|at| {
        let rest = kept.get(at..)?;
        ends.into_iter().find_map(|end| rest.strip_prefix(end))
    });
    behind.unwrap_or_default()
}

/// Whether an event may be an error. Most events contain none of the words for an error, so this
/// check is cheap.
fn may_be_error(event: Event<'_>) -> bool {
    let data = event.data.trim_ascii();
    let is_object = data.starts_with(b"{") && data.ends_with(b"}");
    !event.name.is_empty() || !is_object || stream_ends::mentions_error(data)
}
