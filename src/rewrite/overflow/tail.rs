//! Reads the end of a reply that is relayed: what was counted, why it ended, what went wrong.

mod last;
mod skim;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde_json::Value;

use self::last::{
    ERROR, FAILED, FINISH_REASON, NATIVE_FINISH_REASON, STOP_REASON, TIMINGS, USAGE, last,
};
use super::form::Form;
use super::{Rules, Verdict, stated};
use crate::rewrite::sse::{Event, Finish, Kind, Splitter, glance};
use crate::rewrite::usage::Usage;

/// What is kept of one reply while it passes: several times what the longest last events in use
/// measure, which are those with filter results, timings or a wrapped error in them.
pub const TAIL_BYTES: usize = 4 * 1024;

/// The end of a 200 reply, kept while it passes. It takes no room before something has passed, and
/// never more than [`TAIL_BYTES`].
#[derive(Debug, Default)]
pub struct Tail {
    kept: VecDeque<u8>,
    /// What is kept is not all that came.
    lost_head: bool,
    /// What it is, once that is known: of what is not read here, nothing is kept.
    form: Option<Form>,
}

/// What the end of a reply tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    /// What the provider counted, as it said last.
    pub usage: Option<Usage>,
    /// Why the reply ended.
    pub finish: Option<Finish>,
    /// Whether there was any content, or any was counted. A reply whose beginning was not kept is
    /// taken to have had some.
    pub said: bool,
    /// What its errors state; [`Verdict::Fine`] where there are none.
    pub verdict: Verdict,
}

impl Tail {
    /// Takes the next bytes, decompressed. Any chunking of the same bytes gives the same parting.
    pub fn push(&mut self, chunk: &[u8]) {
        let chunk = match self.form {
            Some(_) => chunk,
            None => self.begin(chunk),
        };
        match self.form {
            Some(Form::Json | Form::Stream) => {}
            Some(Form::Other) | None => return,
        }
        let skipped = chunk.len().saturating_sub(TAIL_BYTES);
        let chunk = chunk.get(skipped..).unwrap_or_default();
        let over = (self.kept.len() + chunk.len()).saturating_sub(TAIL_BYTES);
        self.lost_head |= over > 0 || skipped > 0;
        self.kept.drain(..over);
        self.make_room_for(chunk.len());
        self.kept.extend(chunk);
    }

    /// Grows by doubling, as a vector does, and stops at the bound, as none does.
    fn make_room_for(&mut self, more: usize) {
        let needed = self.kept.len() + more;
        if needed > self.kept.capacity() {
            let room = needed.max(self.kept.capacity() * 2).min(TAIL_BYTES);
            self.kept.reserve_exact(room - self.kept.len());
        }
    }

    /// What the reply told, now that it has ended; errors in it are judged by `rules`.
    pub fn end(mut self, rules: &Rules) -> Parting {
        let kept = &*self.kept.make_contiguous();
        let mut parting = Parting::of_nothing(self.lost_head);
        match (self.form, self.lost_head) {
            (Some(Form::Json), false) => parting.read(Event::unnamed(kept), rules),
            (Some(Form::Json), true) => parting.read_fields(kept),
            (Some(Form::Stream), lost_head) => parting.read_stream(events(kept, lost_head), rules),
            // A page, or a line of text: whatever it is, it is no answer.
            (Some(Form::Other), _) => parting.verdict = Verdict::Failed,
            (None, _) => {}
        }
        parting
    }

    /// Whether a stream has said all that it has to say, though its body may go on: at `[DONE]`, or
    /// once both why it ended and what was counted are told.
    pub fn is_whole(&self) -> bool {
        if self.form != Some(Form::Stream) {
            return false;
        }
        let kept: Vec<u8> = self.kept.iter().copied().collect();
        let (mut is_done, mut parting) = (false, Parting::of_nothing(false));
        each_event(events(&kept, self.lost_head), |event| {
            is_done |= glance(event).kind == Kind::Done;
            parting.read_fields(event.data);
        });
        is_done || (parting.finish.is_some() && parting.usage.is_some())
    }

    /// Finds the form; gives what follows the blank bytes.
    fn begin<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let (form, rest) = Form::of(chunk).unzip();
        self.form = form;
        rest.unwrap_or_default()
    }
}

impl Parting {
    /// What is known before anything was read.
    fn of_nothing(said: bool) -> Self {
        Self {
            usage: None,
            finish: None,
            said,
            verdict: Verdict::Fine,
        }
    }

    /// The same without what only a whole reply tells.
    #[must_use]
    pub fn error_alone(self) -> Self {
        Self {
            usage: None,
            finish: None,
            said: true,
            verdict: self.verdict,
        }
    }

    /// Reads a stream: the events at its ends, and those between them where they may tell more.
    fn read_stream(&mut self, events: &[u8], rules: &Rules) {
        let first = if self.said { 0 } else { skim::first(events) };
        let (first, rest) = events.split_at_checked(first).unwrap_or((events, &[]));
        each_event(first, |event| self.read(event, rules));
        let (between, last) = rest.split_at_checked(skim::last(rest)).unwrap_or_default();
        let mut ended = Self {
            usage: None,
            finish: None,
            ..*self
        };
        each_event(last, |event| ended.read(event, rules));
        // Of what is said more than once, the last counts.
        let tells_all = (ended.finish.is_some() || !skim::may_end(between))
            && (ended.usage.is_some() || !skim::may_count(between))
            && skim::is_plain(between);
        if !self.said || !tells_all {
            return each_event(rest, |event| self.read(event, rules));
        }
        let full = self.finish.filter(|finish| *finish == Finish::WindowFull);
        *self = Self {
            usage: ended.usage.or(self.usage),
            finish: full.or(ended.finish).or(self.finish),
            ..ended
        };
    }

    /// Reads a whole event, or a whole body.
    fn read(&mut self, event: Event<'_>, rules: &Rules) {
        self.read_fields(event.data);
        if self.said && !may_be_error(event) {
            return;
        }
        match glance(event).kind {
            Kind::Content => self.said = true,
            Kind::Done | Kind::Empty | Kind::Usage => {}
            Kind::Error => match stated(event, rules) {
                Verdict::Fine => {}
                Verdict::Failed if self.verdict != Verdict::Fine => {}
                verdict @ (Verdict::Failed
                | Verdict::FewerBytes
                | Verdict::Malformed
                | Verdict::Overflow(_)
                | Verdict::SmallerOutput { .. }
                | Verdict::Unexplained) => self.verdict = verdict,
            },
        }
    }

    /// Reads the fields near the top of a JSON text, its beginning kept or not.
    fn read_fields(&mut self, json: &[u8]) {
        let usage = last(json, &USAGE).find_map(Usage::of_reported);
        let timings = || last(json, &TIMINGS).find_map(Usage::of_timings);
        self.usage = usage.or_else(timings).or(self.usage);
        let generated = self.usage.and_then(|usage| usage.output);
        self.said |= generated.is_some_and(|tokens| tokens > 0);
        if self.finish != Some(Finish::WindowFull) {
            self.finish = finish(json).or(self.finish);
        }
    }
}

/// Why the last choice in a JSON text ended; that the window was full, whichever says so.
fn finish(json: &[u8]) -> Option<Finish> {
    // Of Anthropic, beside others' `finish_reason` or in its place.
    let anthropic = last(json, &STOP_REASON);
    let stated: Vec<Value> = last(json, &FINISH_REASON).chain(anthropic).collect();
    let native: Vec<Value> = last(json, &NATIVE_FINISH_REASON).collect();
    let is_full = |reason: &Value| reason == Finish::WINDOW_FULL;
    if stated.iter().chain(&native).any(is_full) {
        return Some(Finish::WindowFull);
    }
    stated.iter().find_map(Value::as_str).map(Finish::of)
}

/// Hands over events; the last one may be cut off.
fn each_event(events: &[u8], mut each: impl FnMut(Event<'_>)) {
    let mut splitter = Splitter::default();
    splitter.push(events, &mut each);
    splitter.finish(each);
}

/// The events of a stream whose beginning is kept.
fn events(kept: &[u8], lost_head: bool) -> &[u8] {
    if lost_head { whole_events(kept) } else { kept }
}

/// What stands behind the first empty line: events whose beginning is there.
fn whole_events(kept: &[u8]) -> &[u8] {
    let ends: [&[u8]; 3] = [b"\n\n", b"\n\r\n", b"\r\r"];
    let behind = memchr::memchr2_iter(b'\n', b'\r', kept).find_map(|at| {
        let rest = kept.get(at..)?;
        ends.into_iter().find_map(|end| rest.strip_prefix(end))
    });
    behind.unwrap_or_default()
}

/// Whether an event may be an error: one that is not has none of the words in it, and most have not.
fn may_be_error(event: Event<'_>) -> bool {
    let data = event.data.trim_ascii();
    let is_object = data.starts_with(b"{") && data.ends_with(b"}");
    !event.name.is_empty() || !is_object || ERROR.is_in(data) || FAILED.is_in(data)
}
