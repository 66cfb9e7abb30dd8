//! Token usage of one request, as its reply reports it.

use crate::units::usd::Usd;

/// Tokens of one request and its reply, in the provider's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, including tokens read from or written to a cache.
    pub input: u32,
    /// Generated tokens, including reasoning; `None` if not reported.
    pub output: Option<u32>,
    /// Prompt tokens read from a cache; `None` if not reported.
    pub cached: Option<u32>,
    /// Prompt tokens written to a cache; 0 if not reported.
    pub written: u32,
    /// Part of `written` that the cache keeps for an hour; 0 if not reported.
    pub written_for_hour: u32,
    /// Total cost of the request; `None` if not reported.
    pub cost: Option<Usd>,
}

impl Usage {
    /// Returns the tokens of input and output.
    pub fn total(&self) -> u64 {
        u64::from(self.input) + u64::from(self.output.unwrap_or(0))
    }

    /// Whether the prompt is counted. Some servers count it in the first event alone.
    pub(crate) fn counts_prompt(&self) -> bool {
        self.input > 0
    }

    pub(crate) fn without_output(self) -> Self {
        Self { output: None, ..self }
    }

    /// Returns the usage with the prompt of an earlier report, if this one does not count it.
    #[must_use]
    pub fn completed_by(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(earlier) if !self.counts_prompt() => Self {
                output: self.output.or(earlier.output),
                cost: self.cost.or(earlier.cost),
                ..earlier
            },
            // The last event of a stream counts the writes without their lifetimes.
            Some(earlier) => Self {
                written_for_hour: self.written_for_hour.max(earlier.written_for_hour),
                ..self
            },
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_report_of_a_stream_keeps_what_only_the_first_one_said() {
        let first = Usage { input: 43, written: 40, written_for_hour: 30, ..Usage::default() };
        let last = Usage { input: 43, output: Some(5), written: 40, ..Usage::default() };
        let whole = last.completed_by(Some(first));
        assert_eq!((whole.written_for_hour, whole.output), (30, Some(5)));
    }
}
