//! Judges the head of a 200 stream: its events up to the first that settles what it is.

use super::{Overflow, Rules, Verdict, stated};
use crate::rewrite::sse::{Event, Finish, Kind, glance};

/// Whether a reply that is being held must be held on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is known yet.
    Hold,
    /// This is what it is. The rest can be relayed.
    Settled(Verdict),
}

/// What the events so far have shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head {
    finish: Option<Finish>,
    input: Option<u32>,
    output: Option<u32>,
}

impl Head {
    /// Reads the next event.
    pub fn feed(&mut self, event: Event<'_>, rules: &Rules) -> Step {
        let seen = glance(event);
        self.finish = seen.finish.or(self.finish);
        self.input = seen.input.or(self.input);
        self.output = seen.output.or(self.output);
        match seen.kind {
            Kind::Content => Step::Settled(Verdict::Fine),
            Kind::Done => Step::Settled(self.end()),
            Kind::Empty | Kind::Usage if self.finish == Some(Finish::WindowFull) => {
                Step::Settled(Verdict::Overflow(Overflow::stated(None, None)))
            }
            Kind::Empty | Kind::Usage => Step::Hold,
            Kind::Error => Step::Settled(stated(event, rules)),
        }
    }

    /// The verdict over a stream that ended without content. An answer may be empty by right; what
    /// makes one suspect is that nothing was generated, or that nothing is said about it.
    pub fn end(self) -> Verdict {
        let silent = Overflow::silent();
        match (self.finish, self.output) {
            (Some(Finish::Other | Finish::ToolCalls), _) | (_, Some(1..)) => Verdict::Fine,
            // No room for a single token: the server cut the prompt to fill its window, so its
            // count is the window's size and says nothing of the prompt's.
            (Some(Finish::Length), Some(0)) => Verdict::Overflow(Overflow {
                limit: self.input,
                ..silent
            }),
            (Some(Finish::Length), None) | (Some(Finish::Stop | Finish::WindowFull) | None, _) => {
                Verdict::Overflow(Overflow {
                    used: self.input,
                    ..silent
                })
            }
        }
    }
}
