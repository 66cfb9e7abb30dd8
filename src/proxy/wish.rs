//! What a request asks of longhaul in its own headers.

use http::HeaderMap;

use crate::config::{Choice, Mode};

/// What a request asks of us. A word that is not known asks nothing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Wish {
    /// `x-longhaul-mode: on|shadow|off`.
    pub(super) mode: Option<Mode>,
    /// `x-longhaul-prune: off`.
    pub(super) no_prune: bool,
    /// `x-longhaul-compact: off|now`.
    pub(super) compact: Option<Compact>,
}

/// What is asked of compaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Compact {
    /// At once, whatever the marks say.
    Now,
    /// Not for this request, not even after an overflow.
    Off,
}

impl Wish {
    /// Reads the headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let word = |name: &str| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::trim)
        };
        let says =
            |name: &str, text: &str| word(name).is_some_and(|word| word.eq_ignore_ascii_case(text));
        let mode = |&(name, mode): &(&str, Mode)| says("x-longhaul-mode", name).then_some(mode);
        let compact = if says("x-longhaul-compact", "now") {
            Some(Compact::Now)
        } else {
            says("x-longhaul-compact", "off").then_some(Compact::Off)
        };
        Self {
            mode: Mode::ALL.iter().find_map(mode),
            no_prune: says("x-longhaul-prune", "off"),
            compact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, value: &'static str, expect: Wish) {
        let headers = [(name.parse().unwrap(), value.parse().unwrap())]
            .into_iter()
            .collect();
        assert_eq!(Wish::of(&headers), expect);
    }

    #[test]
    fn each_header_asks_for_its_own_thing_and_unknown_words_for_nothing() {
        let none = Wish::default();
        check(
            "x-longhaul-mode",
            "OFF",
            Wish {
                mode: Some(Mode::Off),
                ..none
            },
        );
        check(
            "x-longhaul-mode",
            "shadow",
            Wish {
                mode: Some(Mode::Shadow),
                ..none
            },
        );
        check("x-longhaul-mode", "maybe", none);
        check(
            "x-longhaul-prune",
            "off",
            Wish {
                no_prune: true,
                ..none
            },
        );
        check("x-longhaul-prune", "on", none);
        check(
            "x-longhaul-compact",
            " now ",
            Wish {
                compact: Some(Compact::Now),
                ..none
            },
        );
        check(
            "x-longhaul-compact",
            "off",
            Wish {
                compact: Some(Compact::Off),
                ..none
            },
        );
    }
}
