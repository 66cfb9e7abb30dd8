//! Reads a reply as it comes, decompressed, until it is known what it is.
//!
//! Content types are not asked: they are wrong too often. The first byte tells JSON from a stream
//! of events.

use super::answer::Answer;
use super::head::{Head, Step};
use super::{Overflow, Rules, Verdict, refusal, stated};
use crate::rewrite::sse::{Event, Splitter};

/// A reply in the course of being read.
#[derive(Debug)]
pub struct Reading<'a> {
    rules: &'a Rules,
    status: u16,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// A 200 with JSON: kept until it is seen to be an answer.
    Json { bytes: Vec<u8>, answer: Answer },
    /// An error status: judged when it is whole.
    Refusal(Vec<u8>),
    /// A 200 with events.
    Stream { splitter: Splitter, head: Head },
    /// A 200 of which only white space has come, as some gateways send to keep a connection, or
    /// bytes of a byte order mark.
    Unknown,
}

impl<'a> Reading<'a> {
    /// A reading of a reply with this status; `None` where its body cannot matter.
    pub fn new(status: u16, rules: &'a Rules) -> Option<Self> {
        let form = if status < 300 {
            Form::Unknown
        } else {
            Form::Refusal(Vec::new())
        };
        let can_matter =
            (200..300).contains(&status) || (status >= 400 && !rules.veto_status(status));
        can_matter.then_some(Self {
            rules,
            status,
            form,
        })
    }

    /// Reads the next bytes. Any chunking of the same bytes leads to the same verdict.
    pub fn push(&mut self, chunk: &[u8]) -> Step {
        let rules = self.rules;
        match &mut self.form {
            Form::Json { bytes, answer } => {
                if answer.is_seen_in(chunk) {
                    return Step::Settled(Verdict::Fine);
                }
                bytes.extend_from_slice(chunk);
                Step::Hold
            }
            Form::Refusal(bytes) => {
                bytes.extend_from_slice(chunk);
                Step::Hold
            }
            Form::Stream { splitter, head } => {
                let mut step = Step::Hold;
                splitter.push(chunk, |event| {
                    if step == Step::Hold {
                        step = head.feed(event, rules);
                    }
                });
                step
            }
            Form::Unknown => self.sniff(chunk),
        }
    }

    /// The verdict over what was read, now that there is no more of it.
    pub fn end(self) -> Verdict {
        let Self {
            rules,
            status,
            form,
        } = self;
        match form {
            Form::Json { bytes, answer: _ } => stated(Event::unnamed(&bytes), rules),
            Form::Refusal(bytes) => refusal(status, &bytes, rules),
            Form::Stream { splitter, mut head } => {
                let mut step = Step::Hold;
                splitter.finish(|event| step = head.feed(event, rules));
                match step {
                    Step::Hold => head.end(),
                    Step::Settled(verdict) => verdict,
                }
            }
            // A 200 without a body is no completion, and some servers give it for an overflow.
            Form::Unknown if status == 200 => Verdict::Overflow(Overflow::silent()),
            Form::Unknown => Verdict::Fine,
        }
    }

    fn sniff(&mut self, chunk: &[u8]) -> Step {
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf);
        let Some(start) = chunk.iter().position(|byte| !is_blank(byte)) else {
            return Step::Hold;
        };
        let rest = chunk.get(start..).unwrap_or_default();
        self.form = match rest.first() {
            Some(b'{' | b'[') => Form::Json {
                bytes: Vec::new(),
                answer: Answer::default(),
            },
            // A comment, or one of the four fields.
            Some(b':' | b'd' | b'e' | b'i' | b'r') => Form::Stream {
                splitter: Splitter::default(),
                head: Head::default(),
            },
            _ => return Step::Settled(Verdict::Fine),
        };
        self.push(rest)
    }
}
