//! Classifies a reply incrementally from its decompressed bytes.

use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::dialect::frames::{Frame, first_frame};
use crate::overflow::answer_scanner::AnswerScanner;
use crate::overflow::body_format::BodyFormat;
use crate::overflow::stream_head::{ClassifierStep, StreamHead};
use crate::overflow::{
    ClassifierRules, Overflow, RequestFacts, RuleSet, Verdict, classify_failure, classify_refusal,
    classify_unanswered,
};
use crate::sse::Splitter;

/// Incremental classifier of one reply.
#[derive(Debug)]
pub struct ReplyClassifier<'a> {
    dialect: Dialect,
    rules: RuleSet<'a>,
    status: u16,
    state: ClassifierState,
}

#[derive(Debug)]
enum ClassifierState {
    /// A stream of binary frames with a success status, buffered until its first frame is whole.
    Frames(Vec<u8>),
    /// A JSON body with a success status, buffered until it proves to be an answer.
    Json { bytes: Vec<u8>, answer: AnswerScanner },
    /// A body with an error status, classified once complete.
    Refusal(Vec<u8>),
    /// An event stream with a success status.
    Stream { splitter: Splitter, head: StreamHead },
    /// A body with a success status whose format is not known yet.
    Undetected,
}

impl<'a> ReplyClassifier<'a> {
    /// Creates a classifier for a reply with this status. Where no rule of the table applies, the evidence of
    /// the reply decides, if there are facts about its request. Returns `None` if the status rules out any
    /// action.
    pub fn new(
        dialect: Dialect,
        status: u16,
        table: &'a ClassifierRules,
        facts: Option<RequestFacts<'a>>,
    ) -> Option<Self> {
        let rules = RuleSet { table, facts };
        let state = if status < 300 {
            ClassifierState::Undetected
        } else {
            ClassifierState::Refusal(Vec::new())
        };
        let can_matter =
            (200..300).contains(&status) || (status >= 400 && !rules.rules_out(status));
        can_matter.then_some(Self { dialect, rules, status, state })
    }

    /// Returns the maximum of bytes to hold of the reply, as received.
    pub fn held_bytes(&self) -> usize {
        self.dialect.facts().held_bytes
    }

    /// Reads the next bytes. The verdict does not depend on how the bytes are split into chunks.
    pub fn push(&mut self, chunk: &[u8]) -> ClassifierStep {
        let rules = self.rules;
        match &mut self.state {
            ClassifierState::Frames(bytes) => {
                bytes.extend_from_slice(chunk);
                classify_frames(bytes, rules).map_or(ClassifierStep::Hold, ClassifierStep::Settled)
            }
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

    /// Returns the verdict at the end of the body.
    pub fn finish(self) -> Verdict {
        let rules = self.rules;
        match self.state {
            ClassifierState::Frames(_) => Verdict::Failed,
            ClassifierState::Json { bytes, .. } => classify_unanswered(self.dialect, &bytes, rules),
            ClassifierState::Refusal(bytes) => classify_refusal(self.status, &bytes, rules),
            ClassifierState::Stream { splitter, mut head } => {
                let mut step = ClassifierStep::Hold;
                splitter.finish(|event| step = head.push(event, rules));
                match step {
                    ClassifierStep::Hold => head.verdict_at_end(),
                    ClassifierStep::Settled(verdict) => verdict,
                }
            }
            // A 200 without a body is not a completion, and some servers answer an overflow like
            // this.
            ClassifierState::Undetected if self.status == 200 => {
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
            BodyFormat::Frames => ClassifierState::Frames(Vec::new()),
            BodyFormat::Json => ClassifierState::Json {
                bytes: Vec::new(),
                answer: AnswerScanner::new(self.dialect),
            },
            BodyFormat::Other => return ClassifierStep::Settled(Verdict::Failed),
            BodyFormat::Stream => ClassifierState::Stream {
                splitter: Splitter::default(),
                head: StreamHead::new(self.dialect),
            },
        };
        self.push(rest)
    }
}

/// Classifies a stream of binary frames with a success status by its first frame. Returns `None` if the end of
/// that frame is not there yet.
fn classify_frames(bytes: &[u8], rules: RuleSet<'_>) -> Option<Verdict> {
    Some(match first_frame(bytes)? {
        Frame::Event => Verdict::Fine,
        Frame::Exception(code, message) => {
            let (code, message) = (String::from_utf8_lossy(code), serde_json::from_slice(message));
            let error = json!({"type": code, "error": message.unwrap_or(Value::Null)});
            classify_failure(|details| details.add_value(&error), rules)
        }
        Frame::Unknown => Verdict::Failed,
    })
}
