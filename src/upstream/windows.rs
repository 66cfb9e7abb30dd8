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

    /// It accepted a request of that size.
    pub(crate) fn accepted(&self, model: &str, request: Tokens) {
        let shown = self.of(model);
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
