//! Judges the head of a 200 stream: its events up to the first that settles what it is.

use super::{ClassifierRules, Overflow, Verdict, classify_stated_error};
use crate::rewrite::sse::{Event, EventKind, FinishReason, classify_event};

/// Whether a reply that is being held must be held on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassifierStep {
    /// Nothing is known yet.
    Hold,
    /// This is what it is. The rest can be relayed.
    Settled(Verdict),
}

/// What the events so far have shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamHead {
    finish: Option<FinishReason>,
    input: Option<u32>,
    output: Option<u32>,
}

impl StreamHead {
    /// Reads the next event.
    pub fn push(&mut self, event: Event<'_>, rules: &ClassifierRules) -> ClassifierStep {
        let seen = classify_event(event);
        self.finish = seen.finish.or(self.finish);
        self.input = seen.input.or(self.input);
        self.output = seen.output.or(self.output);
        match seen.kind {
            EventKind::Content => ClassifierStep::Settled(Verdict::Fine),
            EventKind::Done => ClassifierStep::Settled(self.verdict_at_end()),
            EventKind::Empty | EventKind::Usage
                if self.finish == Some(FinishReason::WindowFull) =>
            {
                ClassifierStep::Settled(Verdict::Overflow(Overflow::stated(None, None)))
            }
            EventKind::Empty | EventKind::Usage => ClassifierStep::Hold,
            EventKind::Error => ClassifierStep::Settled(classify_stated_error(event, rules)),
        }
    }

    /// The verdict over a stream that ended without content. An answer may be empty by right; what
    /// makes one suspect is that nothing was generated, or that nothing is said about it.
    pub fn verdict_at_end(self) -> Verdict {
        let silent = Overflow::from_empty_reply();
        match (self.finish, self.output) {
            (Some(FinishReason::Other | FinishReason::ToolCalls), _) | (_, Some(1..)) => {
                Verdict::Fine
            }
            // No room for a single token: the server cut the prompt to fill its window, so its
            // count is the window's size and says nothing of the prompt's.
            (Some(FinishReason::Length), Some(0)) => Verdict::Overflow(Overflow {
                limit: self.input,
                ..silent
            }),
            (Some(FinishReason::Length), None)
            | (Some(FinishReason::Stop | FinishReason::WindowFull) | None, _) => {
                Verdict::Overflow(Overflow {
                    used: self.input,
                    ..silent
                })
            }
        }
    }
}
