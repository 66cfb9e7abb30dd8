//! Overrides that a request sets in its own `x-longhaul-*` headers.

use http::{HeaderMap, HeaderName};

use crate::config::{ChoiceSetting, Mode};

const MODE: HeaderName = HeaderName::from_static("x-longhaul-mode");
const PRUNE: HeaderName = HeaderName::from_static("x-longhaul-prune");
const COMPACT: HeaderName = HeaderName::from_static("x-longhaul-compact");

/// Overrides of one request. Unknown values are ignored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RequestOverrides {
    /// `x-longhaul-mode: on|shadow|off`.
    pub(crate) mode: Option<Mode>,
    /// `x-longhaul-prune: off`.
    pub(crate) no_prune: bool,
    /// `x-longhaul-compact: off|now`.
    pub(crate) compaction: Option<CompactionOverride>,
}

/// Override of compaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CompactionOverride {
    /// Compact immediately, regardless of thresholds.
    Now,
    /// Do not compact this request, not even after an overflow.
    Off,
}

impl RequestOverrides {
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let word = |name: HeaderName| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().trim()
        };
        let mode = word(MODE);
        let named = |(name, _): &&(&str, Mode)| mode.eq_ignore_ascii_case(name);
        let compact = word(COMPACT);
        let compact = if compact.eq_ignore_ascii_case("now") {
            Some(CompactionOverride::Now)
        } else {
            let off = compact.eq_ignore_ascii_case("off");
            off.then_some(CompactionOverride::Off)
        };
        Self {
            mode: Mode::ALL.iter().find(named).map(|(_, mode)| *mode),
            no_prune: word(PRUNE).eq_ignore_ascii_case("off"),
            compaction: compact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, value: &'static str, expect: RequestOverrides) {
        let headers = [(name.parse().unwrap(), value.parse().unwrap())]
            .into_iter()
            .collect();
        assert_eq!(RequestOverrides::from_headers(&headers), expect);
    }

    #[test]
    fn each_override_header_sets_its_option_and_unknown_values_none() {
        let none = RequestOverrides::default();
        check(
            "x-longhaul-mode",
            "OFF",
            RequestOverrides {
                mode: Some(Mode::Off),
                ..none
            },
        );
        check(
            "x-longhaul-mode",
            "shadow",
            RequestOverrides {
                mode: Some(Mode::Shadow),
                ..none
            },
        );
        check("x-longhaul-mode", "maybe", none);
        check(
            "x-longhaul-prune",
            "off",
            RequestOverrides {
                no_prune: true,
                ..none
            },
        );
        check("x-longhaul-prune", "on", none);
        check(
            "x-longhaul-compact",
            " now ",
            RequestOverrides {
                compaction: Some(CompactionOverride::Now),
                ..none
            },
        );
        check(
            "x-longhaul-compact",
            "off",
            RequestOverrides {
                compaction: Some(CompactionOverride::Off),
                ..none
            },
        );
    }
}
