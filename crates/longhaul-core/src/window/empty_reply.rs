//! Detection of empty replies that are caused by the size of the request.

use crate::units::tokens::Tokens;

/// The empty replies of one model. A reply is empty if it has neither an error nor an answer: no
/// delta, only `[DONE]`, or an empty body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EmptyReplyTracker {
    /// The smallest request that received an empty reply, with no request of that size answered
    /// since, and the number of such replies.
    SeenFrom(Tokens, u8),
    /// A request that had been made smaller received an empty reply, too: size is not the reason.
    UnrelatedToSize,
    /// No empty reply since the last answer.
    #[default]
    NotSeen,
}

/// The likely cause of an empty reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EmptyReplyCause {
    /// So many earlier requests of at most this size received an empty reply too: the size may be the reason.
    LikelySize(u8),
    /// The first at this size. The size may be the reason if the request is near the window.
    PossiblySize,
    /// A smaller request would not help.
    UnrelatedToSize,
}

impl EmptyReplyTracker {
    /// Records an empty reply to a request of this size and returns its likely cause.
    pub fn record_empty(&mut self, request: Tokens) -> EmptyReplyCause {
        match *self {
            Self::SeenFrom(smallest, seen) if request >= smallest => {
                *self = Self::SeenFrom(smallest, seen.saturating_add(1));
                EmptyReplyCause::LikelySize(seen)
            }
            Self::UnrelatedToSize => EmptyReplyCause::UnrelatedToSize,
            Self::SeenFrom(..) | Self::NotSeen => {
                *self = Self::SeenFrom(request, 1);
                EmptyReplyCause::PossiblySize
            }
        }
    }

    /// Records an empty reply to the smaller request that replaced one with an empty reply.
    pub fn record_empty_retry(&mut self) {
        *self = Self::UnrelatedToSize;
    }

    /// Records an answer to a request of this size.
    pub fn record_answer(&mut self, request: Tokens) {
        match *self {
            Self::SeenFrom(smallest, _) if request < smallest => {}
            Self::SeenFrom(..) | Self::UnrelatedToSize | Self::NotSeen => *self = Self::NotSeen,
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
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::LikelySize(1));
        assert_eq!(silence.record_empty(LARGE), EmptyReplyCause::LikelySize(2));
        assert_eq!(silence.record_empty(SMALL), EmptyReplyCause::PossiblySize);
        assert_eq!(silence.record_empty(SMALL), EmptyReplyCause::LikelySize(1));
    }

    #[test]
    fn an_answer_resets_the_tracker_only_at_that_size() {
        let mut silence = EmptyReplyTracker::default();
        silence.record_empty(LARGE);
        silence.record_answer(SMALL);
        assert_eq!(silence, EmptyReplyTracker::SeenFrom(LARGE, 1));
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
