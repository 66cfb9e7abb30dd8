//! Reads a reply as it comes, decompressed, until it is known what it is.

use super::answer::Answer;
use super::form::Form;
use super::head::{Head, Step};
use super::{Overflow, Rules, Verdict, refusal, unanswered};
use crate::rewrite::sse::Splitter;

/// A reply in the course of being read.
#[derive(Debug)]
pub struct Reading<'a> {
    rules: &'a Rules,
    status: u16,
    state: State,
}

#[derive(Debug)]
enum State {
    /// A 200 with JSON: kept until it is seen to be an answer.
    Json { bytes: Vec<u8>, answer: Answer },
    /// An error status: judged when it is whole.
    Refusal(Vec<u8>),
    /// A 200 with events.
    Stream { splitter: Splitter, head: Head },
    /// A 200 whose form is not known yet.
    Unknown,
}

impl<'a> Reading<'a> {
    /// A reading of a reply with this status; `None` where its body cannot matter.
    pub fn new(status: u16, rules: &'a Rules) -> Option<Self> {
        let state = if status < 300 {
            State::Unknown
        } else {
            State::Refusal(Vec::new())
        };
        let can_matter =
            (200..300).contains(&status) || (status >= 400 && !rules.veto_status(status));
        can_matter.then_some(Self {
            rules,
            status,
            state,
        })
    }

    /// Reads the next bytes. Any chunking of the same bytes leads to the same verdict.
    pub fn push(&mut self, chunk: &[u8]) -> Step {
        let rules = self.rules;
        match &mut self.state {
            State::Json { bytes, answer } => {
                if answer.is_seen_in(chunk) {
                    return Step::Settled(Verdict::Fine);
                }
                bytes.extend_from_slice(chunk);
                Step::Hold
            }
            State::Refusal(bytes) => {
                bytes.extend_from_slice(chunk);
                Step::Hold
            }
            State::Stream { splitter, head } => {
                let mut step = Step::Hold;
                splitter.push(chunk, |event| {
                    if step == Step::Hold {
                        step = head.feed(event, rules);
                    }
                });
                step
            }
            State::Unknown => self.begin(chunk),
        }
    }

    /// The verdict over what was read, now that there is no more of it.
    pub fn end(self) -> Verdict {
        let Self {
            rules,
            status,
            state,
        } = self;
        match state {
            State::Json { bytes, answer: _ } => unanswered(&bytes, rules),
            State::Refusal(bytes) => refusal(status, &bytes, rules),
            State::Stream { splitter, mut head } => {
                let mut step = Step::Hold;
                splitter.finish(|event| step = head.feed(event, rules));
                match step {
                    Step::Hold => head.end(),
                    Step::Settled(verdict) => verdict,
                }
            }
            // A 200 without a body is no completion, and some servers give it for an overflow.
            State::Unknown if status == 200 => Verdict::Overflow(Overflow::silent()),
            State::Unknown => Verdict::Fine,
        }
    }

    fn begin(&mut self, chunk: &[u8]) -> Step {
        let Some((form, rest)) = Form::of(chunk) else {
            return Step::Hold;
        };
        self.state = match form {
            Form::Json => State::Json {
                bytes: Vec::new(),
                answer: Answer::default(),
            },
            Form::Other => return Step::Settled(Verdict::Failed),
            Form::Stream => State::Stream {
                splitter: Splitter::default(),
                head: Head::default(),
            },
        };
        self.push(rest)
    }
}
