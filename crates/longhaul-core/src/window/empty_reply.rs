//! Detection of empty replies that are caused by the size of the request.

use crate::units::tokens::Tokens;

/// The empty replies of one model. A reply is empty if it has neither an error nor an answer: no
/// delta, only `[DONE]`, or an empty body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EmptyReplyTracker {
    /// The smallest request that received an empty reply, with no request of that size answered
    /// since.
    SeenFrom(Tokens),
    /// A request that had been made smaller received an empty reply, too: size is not the reason.
    UnrelatedToSize,
    /// No empty reply since the last answer.
    #[default]
    NotSeen,
}

/// The likely cause of an empty reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EmptyReplyCause {
    /// An earlier request of at most this size received an empty reply too: the size may be the reason.
    LikelySize,
    /// The first at this size. The size may be the reason if the request is near the window.
    PossiblySize,
    /// A smaller request would not help.
    UnrelatedToSize,
}

impl EmptyReplyTracker {
    /// Records an empty reply to a request of this size and returns its likely cause.
    pub fn record_empty(&mut self, request: Tokens) -> EmptyReplyCause {
        let smallest = match *self {
            Self::SeenFrom(smallest) => Some(smallest),
            Self::UnrelatedToSize => return EmptyReplyCause::UnrelatedToSize,
            Self::NotSeen => None,
        };
        *self = Self::SeenFrom(smallest.unwrap_or(request).min(request));
        match smallest {
            Some(smallest) if request >= smallest => EmptyReplyCause::LikelySize,
            Some(_) | None => EmptyReplyCause::PossiblySize,
        }
    }

    /// Records an empty reply to the smaller request that replaced one with an empty reply.
    pub fn record_empty_retry(&mut self) {
        *self = Self::UnrelatedToSize;
    }

    /// Records an answer to a request of this size.
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
    fn a_second_empty_reply_at_that_size_is_likely_due_to_size() {
        let mut silence = EmptyReplyTracker::default();
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::PossiblySize);
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::LikelySize);
        assert_eq!(silence.record_empty(SMALL), EmptyReplyCause::PossiblySize);
        assert_eq!(silence.record_empty(SMALL), EmptyReplyCause::LikelySize);
    }

    #[test]
    fn an_answer_resets_the_tracker_only_at_that_size() {
        let mut silence = EmptyReplyTracker::default();
        silence.record_empty(LARGE);
        silence.record_answer(SMALL);
        assert_eq!(silence, EmptyReplyTracker::SeenFrom(LARGE));
        silence.record_answer(LARGE);
        assert_eq!(silence, EmptyReplyTracker::NotSeen);
    }

    #[test]
    fn an_empty_retry_rules_out_size_until_any_answer() {
        let mut silence = EmptyReplyTracker::default();
        silence.record_empty(LARGE);
        silence.record_empty_retry();
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::UnrelatedToSize);
        silence.record_answer(SMALL);
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::PossiblySize);
    }
}
