//! The kinds of values: text to a typed value, or a sentence of what was expected.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::layers::Raw;
use super::shown::without_credentials;
use super::{Base, ScopeBy, StoreAt, Summariser};
use crate::rewrite::overflow::Rules;
use crate::rewrite::policy::Threshold;
use crate::rewrite::tokens::Tokens;

/// Past any model's window.
pub(super) const MOST_TOKENS: u32 = 100_000_000;

/// One of a few words.
pub(crate) trait Choice: Copy + 'static {
    /// Each word with what it means.
    const ALL: &'static [(&'static str, Self)];
}

/// One of the words of `C`, in any case.
pub(super) fn choice<C: Choice>(raw: &Raw) -> Result<C, String> {
    let text = one(raw)?;
    let found = C::ALL
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<&str> = C::ALL.iter().map(|(word, _)| *word).collect();
        expected(text, &format!("one of {}", words.join(", ")))
    })
}

/// One of the words of `C`, in any case; empty is none.
pub(super) fn maybe<C: Choice>(raw: &Raw) -> Result<Option<C>, String> {
    optional(raw, choice)
}

/// A socket address; `localhost` stands for 127.0.0.1.
pub(super) fn address(raw: &Raw) -> Result<SocketAddr, String> {
    let text = one(raw)?;
    let local = text
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok());
    local
        .map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .or_else(|| text.parse().ok())
        .ok_or_else(|| expected(text, "an IP address and a port, like 127.0.0.1:8484"))
}

/// A socket address, or `off`.
pub(super) fn maybe_address(raw: &Raw) -> Result<Option<SocketAddr>, String> {
    let text = one(raw)?;
    if text.trim().eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let wanted = "off, or an IP address and a port, like 127.0.0.1:8485";
    address(raw).map(Some).map_err(|_| expected(text, wanted))
}

/// A whole number from `MIN` to `MAX`.
pub(super) fn integer<const MIN: u32, const MAX: u32>(raw: &Raw) -> Result<u32, String> {
    let text = one(raw)?;
    let number = text.replace('_', "").parse().ok();
    number
        .filter(|number| (MIN..=MAX).contains(number))
        .ok_or_else(|| expected(text, &format!("a whole number from {MIN} to {MAX}")))
}

/// A number of things from `MIN` to `MAX`.
pub(super) fn count<const MIN: u32, const MAX: u32>(raw: &Raw) -> Result<usize, String> {
    integer::<MIN, MAX>(raw).map(|number| number as usize)
}

/// A whole number from `MIN` to `MAX`; empty is none.
pub(super) fn maybe_integer<const MIN: u32, const MAX: u32>(
    raw: &Raw,
) -> Result<Option<u32>, String> {
    optional(raw, integer::<MIN, MAX>)
}

/// A number of tokens from `MIN` to `MAX`; empty is none.
pub(super) fn maybe_tokens<const MIN: u32, const MAX: u32>(
    raw: &Raw,
) -> Result<Option<Tokens>, String> {
    Ok(maybe_integer::<MIN, MAX>(raw)?.map(Tokens::new))
}

/// A number of bytes, with `KiB`, `MiB` or `GiB` behind it where that reads better.
pub(super) fn bytes(raw: &Raw) -> Result<u64, String> {
    // Past any machine's memory, and sums of such numbers do not overflow.
    const MOST: u64 = 1 << 40;
    let text = one(raw)?;
    let (number, unit) = split_unit(text);
    let scale = match unit {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    scale
        .zip(number.parse::<u64>().ok())
        .and_then(|(scale, number)| number.checked_mul(scale))
        .filter(|total| *total <= MOST)
        .ok_or_else(|| {
            expected(
                text,
                "a number of bytes up to 1024GiB, like 1048576 or 256MiB",
            )
        })
}

/// A length of time: seconds, or with `ms`, `s`, `m`, `h` or `d` behind it.
pub(super) fn duration(raw: &Raw) -> Result<Duration, String> {
    let text = one(raw)?;
    let (number, unit) = split_unit(text);
    let millis = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(24 * 3_600_000),
        _ => None,
    };
    // A year is past any timer and keeps sums of instants from overflowing.
    millis
        .zip(number.parse::<u64>().ok())
        .and_then(|(scale, number)| number.checked_mul(scale))
        .filter(|total| *total <= 365 * 24 * 3_600_000)
        .map(Duration::from_millis)
        .ok_or_else(|| expected(text, "a length of time, like 30, 30s, 500ms, 5m, 24h or 7d"))
}

/// A path; empty is none.
pub(super) fn path(raw: &Raw) -> Result<Option<PathBuf>, String> {
    let text = one(raw)?;
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

/// The base URL of an API.
pub(super) fn url(raw: &Raw) -> Result<Base, String> {
    Base::parse(one(raw)?).map_err(|refused| refused.to_string())
}

/// The base URL of an API; empty is none.
pub(super) fn maybe_url(raw: &Raw) -> Result<Option<Base>, String> {
    optional(raw, url)
}

/// Where records are kept. What is wrong is told without the text, which may hold a password.
pub(super) fn store_at(raw: &Raw) -> Result<StoreAt, String> {
    StoreAt::parse(one(raw)?).map_err(str::to_owned)
}

/// What tells callers apart.
pub(super) fn scope_by(raw: &Raw) -> Result<ScopeBy, String> {
    let text = one(raw)?.trim();
    if text.eq_ignore_ascii_case("credentials") {
        return Ok(ScopeBy::Credentials);
    }
    text.strip_prefix("header:")
        .and_then(|name| name.trim().parse().ok())
        .map(ScopeBy::Header)
        .ok_or_else(|| expected(text, "credentials or header:NAME"))
}

/// Any text; empty is none.
pub(super) fn maybe_text(raw: &Raw) -> Result<Option<String>, String> {
    optional(raw, |raw| one(raw).map(str::to_owned))
}

/// A switch: `1/true/yes/on` in any case, or `0/false/no/off` and nothing at all.
pub(super) fn switch(raw: &Raw) -> Result<bool, String> {
    let text = one(raw)?;
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" | "" => Ok(false),
        _ => Err(expected(text, "1, true, yes or on, or 0, false, no or off")),
    }
}

/// Where a mark stands: a share from 0 to 1 or 0% to 100%, in hundredths, or a number of tokens.
/// More digits are refused, not rounded off; so is what could be either.
pub(super) fn threshold(raw: &Raw) -> Result<Threshold, String> {
    let text = one(raw)?;
    let trimmed = text.trim();
    let share = match trimmed.strip_suffix('%') {
        Some(percent) => digits(percent.trim_end()),
        None => hundredths(trimmed),
    };
    let share = share.filter(|share| *share <= 100).map(Threshold::Share);
    let tokens = || {
        let number = digits(&trimmed.replace('_', ""))?;
        (1_000..=MOST_TOKENS)
            .contains(&number)
            .then(|| Threshold::Tokens(Tokens::new(number)))
    };
    share.or_else(tokens).ok_or_else(|| {
        expected(
            text,
            "a share in hundredths, like 0.85 or 85%, or a number of tokens from 1000 up",
        )
    })
}

fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let plain = !(whole.is_empty() && part.is_empty()) && part.len() <= 2;
    plain
        .then(|| digits(&format!("{whole}{part:0<2}")))
        .flatten()
}

/// A whole number without a sign.
fn digits(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Who writes summaries: `own`, `none`, or a model's name.
pub(super) fn summariser(raw: &Raw) -> Result<Summariser, String> {
    let text = one(raw)?.trim();
    match text.to_ascii_lowercase().as_str() {
        "" => Err(expected(text, "own, none or the name of a model")),
        "none" => Ok(Summariser::Nobody),
        "own" => Ok(Summariser::Own),
        _ => Ok(Summariser::Named(text.to_owned())),
    }
}

/// A list of texts; as one text, separated by commas. `[]` is none, as it is in the file.
pub(super) fn list(raw: &Raw) -> Result<Vec<String>, String> {
    match raw {
        Raw::List(items) if items.iter().any(String::is_empty) => {
            Err("found an empty text in a list".into())
        }
        Raw::List(items) => Ok(items.clone()),
        Raw::Text(text) if text.trim() == "[]" => Ok(Vec::new()),
        Raw::Text(text) => {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            Ok(items.map(str::to_owned).collect())
        }
    }
}

/// The rules of the classifier with these patterns beside them; as one text, one a line: patterns
/// contain commas. `[]` is none, as it is in the file.
pub(super) fn patterns(raw: &Raw) -> Result<Rules, String> {
    let rules = match raw {
        Raw::List(items) => Rules::with(items),
        Raw::Text(text) if text.trim() == "[]" => Rules::with(&[]),
        Raw::Text(text) => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            Rules::with(&lines.map(str::to_owned).collect::<Vec<_>>())
        }
    };
    rules.map_err(|refused| refused.to_string())
}

/// Nothing for nothing, else what `read` makes of it.
fn optional<T>(raw: &Raw, read: fn(&Raw) -> Result<T, String>) -> Result<Option<T>, String> {
    match raw {
        Raw::Text(text) if text.trim().is_empty() => Ok(None),
        Raw::List(_) | Raw::Text(_) => read(raw).map(Some),
    }
}

fn one(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::List(_) => Err("found a list, expected one value".into()),
        Raw::Text(text) => Ok(text),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// What was found may be the URL of another setting, with a password.
fn expected(found: &str, wanted: &str) -> String {
    format!("found `{}`, expected {wanted}", without_credentials(found))
}

#[cfg(test)]
mod tests {
    use super::super::Http2;
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better at its calls")]
    fn check<T: PartialEq + std::fmt::Debug>(
        read: fn(&Raw) -> Result<T, String>,
        input: &str,
        expect: Option<T>,
    ) {
        assert_eq!(read(&Raw::Text(input.into())).ok(), expect, "{input:?}");
    }

    #[test]
    fn a_url_in_the_wrong_place_is_told_without_its_password() {
        for told in [
            address(&Raw::Text("redis://u:hunter2@h".into())).unwrap_err(),
            choice::<Http2>(&Raw::Text("http://u:hunter2@h".into())).unwrap_err(),
        ] {
            assert!(
                told.contains("://…@h") && !told.contains("hunter2"),
                "{told}"
            );
        }
    }

    #[test]
    fn addresses_are_an_ip_or_localhost_and_a_port() {
        check(address, "127.0.0.1:0", Some(([127, 0, 0, 1], 0).into()));
        check(
            address,
            "localhost:8484",
            Some(([127, 0, 0, 1], 8484).into()),
        );
        check(address, "[::1]:80", "[::1]:80".parse().ok());
        check(address, "127.0.0.1", None);
        check(address, ":8484", None);
        check(address, "", None);
    }

    #[test]
    fn a_listener_that_can_be_spared_is_an_address_or_off() {
        let here = ([127, 0, 0, 1], 8485).into();
        check(maybe_address, "localhost:8485", Some(Some(here)));
        check(maybe_address, "OFF", Some(None));
        check(maybe_address, "", None);
        check(maybe_address, "none", None);
    }

    #[test]
    fn bytes_take_binary_units_and_stay_below_a_tebibyte() {
        check(bytes, "256MiB", Some(268_435_456));
        check(bytes, "12 KiB", Some(12_288));
        check(bytes, "1", Some(1));
        check(bytes, "1025GiB", None);
        check(bytes, "1MB", None);
        check(bytes, "-1", None);
        check(bytes, "99999999999999999999", None);
    }

    #[test]
    fn durations_are_seconds_unless_they_say_otherwise() {
        check(duration, "30", Some(Duration::from_secs(30)));
        check(duration, "500ms", Some(Duration::from_millis(500)));
        check(duration, "5m", Some(Duration::from_mins(5)));
        check(duration, "7d", Some(Duration::from_hours(7 * 24)));
        check(duration, "1w", None);
        check(duration, "18446744073709551615h", None);
    }

    #[test]
    fn integers_keep_to_their_range() {
        check(integer::<1, 100_000>, "16_384", Some(16_384));
        check(integer::<1, 10>, "0", None);
        check(integer::<1, 10>, "11", None);
    }

    #[test]
    fn switches_know_four_words_each_way_and_nothing_else() {
        for word in ["1", "true", "YES", "On"] {
            check(switch, word, Some(true));
        }
        for word in ["0", "False", "no", "off", ""] {
            check(switch, word, Some(false));
        }
        check(switch, "maybe", None);
    }

    #[test]
    fn marks_are_shares_in_hundredths_or_tokens() {
        for (text, hundredth) in [
            ("0", 0),
            ("0.85", 85),
            (".9", 90),
            ("1", 100),
            ("1.00", 100),
            ("90%", 90),
            (" 7 % ", 7),
        ] {
            check(threshold, text, Some(Threshold::Share(hundredth)));
        }
        for (text, tokens) in [("1000", 1_000), ("150_000", 150_000), (" 200000 ", 200_000)] {
            check(
                threshold,
                text,
                Some(Threshold::Tokens(Tokens::new(tokens))),
            );
        }
        for text in [
            "1.01",
            "0.855",
            "85",
            "999",
            "NaN",
            "-0.1",
            "+0.5",
            "0.+5",
            "",
            ".",
            "%",
            "101%",
            "8.5%",
            "+90%",
            "100000001",
            "150k",
        ] {
            check(threshold, text, None);
        }
    }

    #[test]
    fn empty_is_none_where_a_value_may_be_left_open() {
        check(maybe_tokens::<10, 20>, "", Some(None));
        check(maybe_tokens::<10, 20>, "1_5", Some(Some(Tokens::new(15))));
        check(maybe_tokens::<10, 20>, "21", None);
        check(maybe_integer::<0, 9>, " ", Some(None));
        check(maybe_integer::<0, 9>, "none", None);
        check(maybe::<Http2>, "", Some(None));
        check(maybe::<Http2>, "AUTO", Some(Some(Http2::Auto)));
        check(maybe::<Http2>, "maybe", None);
    }

    #[test]
    fn summarisers_are_the_own_model_none_or_a_name() {
        check(summariser, "own", Some(Summariser::Own));
        check(summariser, "None", Some(Summariser::Nobody));
        let named = Summariser::Named("z-ai/GLM-4.6".into());
        check(summariser, "z-ai/GLM-4.6", Some(named));
        check(summariser, "", None);
    }

    #[test]
    fn patterns_stand_one_a_line_and_each_is_compiled() {
        check(
            |raw| patterns(raw).map(drop),
            "a{1,3}, b\r\n\n [0-9] of \n",
            Some(()),
        );
        check(|raw| patterns(raw).map(drop), "[]", Some(()));
        check(|raw| patterns(raw).map(drop), "", Some(()));
        let refused = patterns(&Raw::Text("a\n\nb(".into())).unwrap_err();
        assert_eq!(refused, "pattern 2: unclosed group");
        let list = Raw::List(vec!["a\nb".into(), "(?<x>c)".into()]);
        assert!(
            patterns(&list)
                .unwrap_err()
                .starts_with("pattern 2: found the group `x`")
        );
    }

    #[test]
    fn lists_split_at_commas() {
        check(
            list,
            "a, b,,c",
            Some(vec!["a".into(), "b".into(), "c".into()]),
        );
        check(list, "", Some(Vec::new()));
        check(list, "[]", Some(Vec::new()));
    }
}
