//! Reads a reply as it comes, decompressed, until it is known what it is.

use super::answer::AnswerScanner;
use super::form::BodyFormat;
use super::head::{ClassifierStep, StreamHead};
use super::{ClassifierRules, Overflow, Verdict, classify_refusal, classify_unanswered};
use crate::rewrite::sse::Splitter;

/// A reply in the course of being read.
#[derive(Debug)]
pub struct ReplyClassifier<'a> {
    rules: &'a ClassifierRules,
    status: u16,
    state: ClassifierState,
}

#[derive(Debug)]
enum ClassifierState {
    /// A 200 with JSON: kept until it is seen to be an answer.
    Json {
        bytes: Vec<u8>,
        answer: AnswerScanner,
    },
    /// An error status: judged when it is whole.
    Refusal(Vec<u8>),
    /// A 200 with events.
    Stream {
        splitter: Splitter,
        head: StreamHead,
    },
    /// A 200 whose form is not known yet.
    Undetected,
}

impl<'a> ReplyClassifier<'a> {
    /// A reading of a reply with this status; `None` where its body cannot matter.
    pub fn new(status: u16, rules: &'a ClassifierRules) -> Option<Self> {
        let state = if status < 300 {
            ClassifierState::Undetected
        } else {
            ClassifierState::Refusal(Vec::new())
        };
        let can_matter =
            (200..300).contains(&status) || (status >= 400 && !rules.is_vetoed_status(status));
        can_matter.then_some(Self {
            rules,
            status,
            state,
        })
    }

    /// Reads the next bytes. Any chunking of the same bytes leads to the same verdict.
    pub fn push(&mut self, chunk: &[u8]) -> ClassifierStep {
        let rules = self.rules;
        match &mut self.state {
            ClassifierState::Json { bytes, answer } => {
                if answer.scan(chunk) {
                    return ClassifierStep::Settled(Verdict::Fine);
                }
                bytes.extend_from_slice(chunk);
                ClassifierStep::Hold
            }
            ClassifierState::Refusal(bytes) => {
                bytes.extend_from_slice(chunk);
                ClassifierStep::Hold
            }
            ClassifierState::Stream { splitter, head } => {
                let mut step = ClassifierStep::Hold;
                splitter.push(chunk, |event| {
                    if step == ClassifierStep::Hold {
                        step = head.push(event, rules);
                    }
                });
                step
            }
            ClassifierState::Undetected => self.detect_format(chunk),
        }
    }

    /// The verdict over what was read, now that there is no more of it.
    pub fn finish(self) -> Verdict {
        let Self {
            rules,
            status,
            state,
        } = self;
        match state {
            ClassifierState::Json { bytes, answer: _ } => classify_unanswered(&bytes, rules),
            ClassifierState::Refusal(bytes) => classify_refusal(status, &bytes, rules),
            ClassifierState::Stream { splitter, mut head } => {
                let mut step = ClassifierStep::Hold;
                splitter.finish(|event| step = head.push(event, rules));
                match step {
                    ClassifierStep::Hold => head.verdict_at_end(),
                    ClassifierStep::Settled(verdict) => verdict,
                }
            }
            // A 200 without a body is no completion, and some servers give it for an overflow.
            ClassifierState::Undetected if status == 200 => {
                Verdict::Overflow(Overflow::from_empty_reply())
            }
            ClassifierState::Undetected => Verdict::Fine,
        }
    }

    fn detect_format(&mut self, chunk: &[u8]) -> ClassifierStep {
        let Some((form, rest)) = BodyFormat::detect(chunk) else {
            return ClassifierStep::Hold;
        };
        self.state = match form {
            BodyFormat::Json => ClassifierState::Json {
                bytes: Vec::new(),
                answer: AnswerScanner::default(),
            },
            BodyFormat::Other => return ClassifierStep::Settled(Verdict::Failed),
            BodyFormat::Stream => ClassifierState::Stream {
                splitter: Splitter::default(),
                head: StreamHead::default(),
            },
        };
        self.push(rest)
    }
}
