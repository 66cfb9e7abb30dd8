//! Classifies a stream with a success status by its first events, up to the first conclusive one.

use crate::dialect::Dialect;
use crate::dialect::reply::{EventKind, FinishReason};
use crate::overflow::tail::END_MARK;
use crate::overflow::{Overflow, RuleSet, Verdict, classify_message, classify_stated_error};
use crate::sse::Event;

/// Progress of the classification of a reply that the proxy holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassifierStep {
    /// The bytes so far are inconclusive: keep holding.
    Hold,
    /// The verdict is final. The rest can be relayed.
    Settled(Verdict),
}

/// Finish reason and token counts from the events so far.
#[derive(Clone, Copy, Debug)]
pub struct StreamHead {
    dialect: Dialect,
    finish: Option<FinishReason>,
    input: Option<u32>,
    output: Option<u32>,
    /// Whether an event holds a message in place of an answer.
    states_failure: bool,
}

impl StreamHead {
    /// Creates the state before the first event.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, finish: None, input: None, output: None, states_failure: false }
    }

    pub(super) fn push(&mut self, event: Event<'_>, rules: RuleSet<'_>) -> ClassifierStep {
        let info = self.dialect.classify_event(event);
        self.finish = info.finish.or(self.finish);
        self.input = info.input.or(self.input);
        self.output = info.output.or(self.output);
        match info.kind {
            EventKind::Content => ClassifierStep::Settled(Verdict::Fine),
            EventKind::Done => ClassifierStep::Settled(self.verdict_at_end()),
            EventKind::Empty | EventKind::Usage
                if self.finish == Some(FinishReason::WindowFull) =>
            {
                ClassifierStep::Settled(Verdict::Overflow(Overflow::stated(None, None)))
            }
            EventKind::Empty | EventKind::Usage => {
                let verdict = classify_stated_error(self.dialect, event, rules);
                if verdict != Verdict::Fine {
                    return ClassifierStep::Settled(verdict);
                }
                match classify_message(event, rules) {
                    Some(verdict) if verdict != Verdict::Fine => ClassifierStep::Settled(verdict),
                    message => {
                        self.states_failure |= message.is_some();
                        ClassifierStep::Hold
                    }
                }
            }
            EventKind::Error => {
                ClassifierStep::Settled(classify_stated_error(self.dialect, event, rules))
            }
        }
    }

    /// Returns the verdict on a stream that ended without content.
    ///
    /// A legitimate answer may be empty. The stream is suspect only if it generated nothing, or
    /// states no token counts.
    pub fn verdict_at_end(self) -> Verdict {
        // A finish reason or generated tokens outweigh words.
        if self.states_failure && self.finish.is_none() && self.output.unwrap_or_default() == 0 {
            return Verdict::Failed;
        }
        let silent = Overflow::from_empty_reply();
        match (self.finish, self.output) {
            // There was no room for a text: the server truncated the prompt to fill its window. So its
            // count is the size of the window and reveals nothing about the prompt.
            (Some(FinishReason::Length), Some(output)) if output <= END_MARK => {
                Verdict::Overflow(Overflow { limit: self.input, ..silent })
            }
            (Some(FinishReason::Other | FinishReason::ToolCalls), _) | (_, Some(1..)) => {
                Verdict::Fine
            }
            (
                Some(FinishReason::Length | FinishReason::Stop | FinishReason::WindowFull) | None,
                _,
            ) => Verdict::Overflow(Overflow { used: self.input, ..silent }),
        }
    }
}
