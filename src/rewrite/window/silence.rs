//! Whether a model that says nothing does so because of the size of what it is asked.

use crate::rewrite::tokens::Tokens;

/// What the silences of one model have shown. A silence is a reply without an error and without an
/// answer: no delta, nothing but `[DONE]`, an empty body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Silence {
    /// The smallest request that met one, with no answer to one as large since.
    From(Tokens),
    /// A request that had been made smaller met one too: size is not the reason.
    Inexplicable,
    /// None was met.
    #[default]
    Unmet,
}

/// What another silence means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    /// Requests as large meet it: their size may be the reason.
    Again,
    /// Nothing was known of one. Where the request is near the window, that may be the reason.
    First,
    /// Nothing that making the request smaller would cure.
    Inexplicable,
}

impl Silence {
    /// A request of that size met one.
    pub fn meet(&mut self, request: Tokens) -> Heard {
        match *self {
            Self::From(smallest) => {
                *self = Self::From(smallest.min(request));
                if request >= smallest {
                    Heard::Again
                } else {
                    Heard::First
                }
            }
            Self::Inexplicable => Heard::Inexplicable,
            Self::Unmet => {
                *self = Self::From(request);
                Heard::First
            }
        }
    }

    /// What was sent in place of a request that met one has met one too.
    pub fn persist(&mut self) {
        *self = Self::Inexplicable;
    }

    /// A request of that size was answered.
    pub fn answer(&mut self, request: Tokens) {
        match *self {
            Self::From(smallest) if request < smallest => {}
            Self::From(_) | Self::Inexplicable | Self::Unmet => *self = Self::Unmet,
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
        let mut silence = Silence::default();
        assert_eq!(silence.meet(LARGE), Heard::First);
        assert_eq!(silence.meet(LARGE), Heard::Again);
        assert_eq!(silence.meet(SMALL), Heard::First);
        assert_eq!(silence.meet(SMALL), Heard::Again);
    }

    #[test]
    fn an_answer_at_that_size_ends_it_and_a_smaller_one_does_not() {
        let mut silence = Silence::default();
        silence.meet(LARGE);
        silence.answer(SMALL);
        assert_eq!(silence, Silence::From(LARGE));
        silence.answer(LARGE);
        assert_eq!(silence, Silence::Unmet);
    }

    #[test]
    fn what_a_smaller_request_does_not_cure_is_left_until_any_is_answered() {
        let mut silence = Silence::default();
        silence.meet(LARGE);
        silence.persist();
        assert_eq!(silence.meet(LARGE), Heard::Inexplicable);
        silence.answer(SMALL);
        assert_eq!(silence.meet(LARGE), Heard::First);
    }
}
