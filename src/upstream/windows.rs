//! What each model has shown of its window: what it refused, and the most it has accepted.

use crate::rewrite::overflow::Overflow;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::learn;
use moka::sync::Cache;

/// Models remembered at once; a proxy serves few, and a client may name any.
const MODELS: u64 = 1_024;

/// What a model has shown, in the plain estimate's own units.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Shown {
    /// The window, learned from a refusal.
    pub(crate) window: Option<Tokens>,
    /// The largest request that it accepted since.
    pub(crate) accepted: Tokens,
}

impl Shown {
    /// Whether a request of that size is known to fit: one at least as large was accepted, or it
    /// is well below what was learned.
    pub(crate) fn proves(&self, request: Tokens) -> bool {
        request <= self.accepted
            || self
                .window
                .is_some_and(|window| request <= window.percent(75))
    }
}

/// What the models of one upstream have shown.
pub(crate) struct Windows {
    shown: Cache<String, Shown>,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            shown: Cache::new(MODELS),
        }
    }
}

impl Windows {
    /// What `model` has shown.
    pub(crate) fn of(&self, model: &str) -> Shown {
        self.shown.get(model).unwrap_or_default()
    }

    /// It accepted a request of that size. A window that was learned and is smaller was learned
    /// wrongly, or from denser text: it is forgotten.
    pub(crate) fn accepted(&self, model: &str, request: Tokens) {
        let mut shown = self.of(model);
        if shown.window.is_some_and(|window| window < request) {
            shown.window = None;
        }
        if request > shown.accepted {
            self.shown.insert(
                model.to_owned(),
                Shown {
                    accepted: request,
                    ..shown
                },
            );
        }
    }

    /// It refused a request of that size; says what its window is taken to be from here on.
    pub(crate) fn refused(&self, model: &str, request: Tokens, overflow: &Overflow) -> Tokens {
        let window = learn(request, overflow);
        let accepted = self.of(model).accepted.min(window);
        self.shown.insert(
            model.to_owned(),
            Shown {
                window: Some(window),
                accepted,
            },
        );
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::overflow::{Reply, Rules, Verdict, classify};

    const REFUSED: &[u8] = br#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 32000 tokens. However, your messages resulted in 40000 tokens."}}"#;

    fn overflow() -> Overflow {
        let verdict = classify(
            Reply::Body {
                status: 400,
                bytes: REFUSED,
            },
            Rules::standard(),
        );
        let Verdict::Overflow(overflow) = verdict else {
            panic!("{verdict:?}")
        };
        overflow
    }

    #[test]
    fn a_refusal_teaches_the_window_in_our_own_units() {
        let windows = Windows::default();
        let learned = windows.refused("m", Tokens::new(30_000), &overflow());
        assert_eq!(learned, Tokens::new(24_000));
        assert_eq!(windows.of("m").window, Some(learned));
        assert_eq!(windows.of("other"), Shown::default());
    }

    #[test]
    fn only_what_was_accepted_or_is_well_below_the_window_is_proven() {
        let windows = Windows::default();
        assert!(!windows.of("m").proves(Tokens::new(1)));
        windows.accepted("m", Tokens::new(100));
        assert!(windows.of("m").proves(Tokens::new(100)));
        assert!(!windows.of("m").proves(Tokens::new(101)));
        _ = windows.refused("m", Tokens::new(30_000), &overflow());
        assert!(windows.of("m").proves(Tokens::new(18_000)));
        assert!(!windows.of("m").proves(Tokens::new(18_001)));
    }

    #[test]
    fn a_window_that_a_larger_request_disproves_is_forgotten() {
        let windows = Windows::default();
        _ = windows.refused("m", Tokens::new(30_000), &overflow());
        windows.accepted("m", Tokens::new(24_001));
        assert_eq!(windows.of("m").window, None);
    }
}
