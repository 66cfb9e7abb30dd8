//! Overrides that a request sets in its own `x-longhaul-*` headers, and what the settings allow of them.

use http::{HeaderMap, HeaderName};

use crate::config::{ChoiceSetting, Config, Mode};

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

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CompactionOverride {
    /// Compact immediately, regardless of thresholds.
    Now,
    /// Do not compact this request, not even after an overflow.
    Off,
}

impl RequestOverrides {
    /// Reads the headers. If a header has several values, the one that does least counts.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let has = |name: &HeaderName, word: &str| {
            let mut values = headers.get_all(name).iter();
            values.any(|value| {
                let value = value.as_bytes().trim_ascii();
                value.eq_ignore_ascii_case(word.as_bytes())
            })
        };
        let modes = Mode::ALL.iter().filter(|(word, _)| has(&MODE, word));
        let compaction = if has(&COMPACT, "off") {
            Some(CompactionOverride::Off)
        } else {
            has(&COMPACT, "now").then_some(CompactionOverride::Now)
        };
        Self { mode: modes.map(|(_, mode)| *mode).max(), no_prune: has(&PRUNE, "off"), compaction }
    }

    /// Returns the overrides without those that raise what the operator's settings allow. Whoever sends
    /// the request may spend another's key.
    pub(crate) fn within(self, config: &Config) -> Self {
        let compacts = config.compaction.proactive;
        let compaction = match self.compaction {
            Some(CompactionOverride::Now) if !compacts => None,
            compaction => compaction,
        };
        Self { mode: self.mode.map(|mode| mode.max(config.mode)), compaction, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, value: &'static str, expect: RequestOverrides) {
        let headers = [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
        assert_eq!(RequestOverrides::from_headers(&headers), expect);
    }

    #[test]
    fn of_several_values_the_one_that_does_least_counts() {
        for [mode, other] in [["on", "shadow"], ["shadow", "on"]] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(MODE, mode), (MODE, other), (COMPACT, "now"), (COMPACT, "off")] {
                headers.append(name, value.parse().unwrap());
            }
            let read = RequestOverrides::from_headers(&headers);
            assert_eq!(read.mode, Some(Mode::Shadow));
            assert_eq!(read.compaction, Some(CompactionOverride::Off));
        }
    }

    #[test]
    fn headers_lower_what_the_settings_allow_and_never_raise_it() {
        let modes = [Mode::On, Mode::Shadow, Mode::Off];
        let asked = |mode, compaction| RequestOverrides {
            mode: Some(mode),
            no_prune: true,
            compaction: Some(compaction),
        };
        for (at, operator) in modes.into_iter().enumerate() {
            for (wish, mode) in modes.into_iter().enumerate() {
                let settings = [("mode", operator.name()), ("compact.auto_disabled", "true")];
                let config = Config::default_with(settings).unwrap();
                let within = asked(mode, CompactionOverride::Now).within(&config);
                let expect = RequestOverrides {
                    mode: Some(modes[at.max(wish)]),
                    no_prune: true,
                    compaction: None,
                };
                assert_eq!(within, expect, "{operator:?} {mode:?}");
            }
        }
        for compaction in [CompactionOverride::Now, CompactionOverride::Off] {
            let asked = asked(Mode::Off, compaction);
            let config = Config::default_with([]).unwrap();
            assert_eq!(asked.within(&config), asked);
        }
    }

    #[test]
    fn each_override_header_sets_its_option_and_unknown_values_none() {
        let none = RequestOverrides::default();
        check("x-longhaul-mode", "OFF", RequestOverrides { mode: Some(Mode::Off), ..none });
        check("x-longhaul-mode", "shadow", RequestOverrides { mode: Some(Mode::Shadow), ..none });
        check("x-longhaul-mode", "maybe", none);
        check("x-longhaul-prune", "off", RequestOverrides { no_prune: true, ..none });
        check("x-longhaul-prune", "on", none);
        check(
            "x-longhaul-compact",
            " now ",
            RequestOverrides { compaction: Some(CompactionOverride::Now), ..none },
        );
        check(
            "x-longhaul-compact",
            "off",
            RequestOverrides { compaction: Some(CompactionOverride::Off), ..none },
        );
    }
}
