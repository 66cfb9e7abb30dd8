//! Whether a model that says nothing does so because of the size of what it is asked.

use crate::rewrite::tokens::Tokens;

/// What the silences of one model have shown. A silence is a reply without an error and without an
/// answer: no delta, nothing but `[DONE]`, an empty body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EmptyReplyTracker {
    /// The smallest request that met one, with no answer to one as large since.
    SeenFrom(Tokens),
    /// A request that had been made smaller met one too: size is not the reason.
    UnrelatedToSize,
    /// None was met.
    #[default]
    NotSeen,
}

/// What another silence means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EmptyReplyCause {
    /// Requests as large meet it: their size may be the reason.
    LikelySize,
    /// Nothing was known of one. Where the request is near the window, that may be the reason.
    PossiblySize,
    /// Nothing that making the request smaller would cure.
    UnrelatedToSize,
}

impl EmptyReplyTracker {
    /// A request of that size met one.
    pub fn record_empty(&mut self, request: Tokens) -> EmptyReplyCause {
        match *self {
            Self::SeenFrom(smallest) => {
                *self = Self::SeenFrom(smallest.min(request));
                if request >= smallest {
                    EmptyReplyCause::LikelySize
                } else {
                    EmptyReplyCause::PossiblySize
                }
            }
            Self::UnrelatedToSize => EmptyReplyCause::UnrelatedToSize,
            Self::NotSeen => {
                *self = Self::SeenFrom(request);
                EmptyReplyCause::PossiblySize
            }
        }
    }

    /// What was sent in place of a request that met one has met one too.
    pub fn record_empty_retry(&mut self) {
        *self = Self::UnrelatedToSize;
    }

    /// A request of that size was answered.
    pub fn record_answer(&mut self, request: Tokens) {
        match *self {
            Self::SeenFrom(smallest) if request < smallest => {}
            Self::SeenFrom(_) | Self::UnrelatedToSize | Self::NotSeen => *self = Self::NotSeen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Tokens = Tokens::new(100);
    const LARGE: Tokens = Tokens::new(200);

    #[test]
    fn a_second_silence_at_that_size_may_be_for_its_size() {
        let mut silence = EmptyReplyTracker::default();
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::PossiblySize);
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::LikelySize);
        assert_eq!(silence.record_empty(SMALL), EmptyReplyCause::PossiblySize);
        assert_eq!(silence.record_empty(SMALL), EmptyReplyCause::LikelySize);
    }

    #[test]
    fn an_answer_at_that_size_ends_it_and_a_smaller_one_does_not() {
        let mut silence = EmptyReplyTracker::default();
        silence.record_empty(LARGE);
        silence.record_answer(SMALL);
        assert_eq!(silence, EmptyReplyTracker::SeenFrom(LARGE));
        silence.record_answer(LARGE);
        assert_eq!(silence, EmptyReplyTracker::NotSeen);
    }

    #[test]
    fn what_a_smaller_request_does_not_cure_is_left_until_any_is_answered() {
        let mut silence = EmptyReplyTracker::default();
        silence.record_empty(LARGE);
        silence.record_empty_retry();
        assert_eq!(
            silence.record_empty(LARGE),
            EmptyReplyCause::UnrelatedToSize
        );
        silence.record_answer(SMALL);
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::PossiblySize);
    }
}
