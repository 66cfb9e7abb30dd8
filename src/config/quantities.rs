//! Parsers for settings with a unit: bytes, durations, tokens and thresholds.

use std::time::Duration;

use super::parse::{mismatch, single_text};
use super::raw_value::RawValue;
use longhaul_console::amounts::{digits, token_count};
use longhaul_core::cost::caps::Cap;
use longhaul_core::policy::ThresholdSetting;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;

/// Upper bound on token counts, beyond any model's window.
pub(super) const MAX_TOKENS: u32 = 100_000_000;

/// Parses a number of bytes with an optional unit: `KiB`, `MiB` or `GiB`.
pub(super) fn bytes(raw: &RawValue) -> Result<u64, String> {
    // Beyond any machine's memory, and small enough that sums do not overflow.
    const MOST: u64 = 1 << 40;
    const UNITS: &[(&str, u64)] =
        &[("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let text = single_text(raw)?;
    scaled(text, UNITS, MOST)
        .ok_or_else(|| mismatch(text, "a number of bytes up to 1024GiB, like 1048576 or 256MiB"))
}

/// Parses a duration in seconds, or with a unit: `ms`, `s`, `m`, `h` or `d`.
pub(super) fn duration(raw: &RawValue) -> Result<Duration, String> {
    const DAY: u64 = 24 * 3_600_000;
    const UNITS: &[(&str, u64)] =
        &[("ms", 1), ("", 1_000), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", DAY)];
    let text = single_text(raw)?;
    // A year is longer than any timer needs, and sums of instants do not overflow.
    scaled(text, UNITS, 365 * DAY)
        .map(Duration::from_millis)
        .ok_or_else(|| mismatch(text, "a duration, like 30, 30s, 500ms, 5m, 24h or 7d"))
}

pub(super) fn tokens<const MIN: u32, const MAX: u32>(raw: &RawValue) -> Result<Tokens, String> {
    let text = single_text(raw)?;
    let number = token_count(text).filter(|number| (MIN..=MAX).contains(number));
    number.map(Tokens::new).ok_or_else(|| {
        let wanted = format!("a whole number from {MIN} to {MAX}, such as 32768, 32k or 1M");
        mismatch(text, &wanted)
    })
}

/// Parses a cap: dollars after `$`, or a number of tokens.
pub(super) fn cap(raw: &RawValue) -> Result<Cap, String> {
    let text = single_text(raw)?;
    let cap = match text.trim().strip_prefix('$') {
        Some(dollars) => {
            let dollars = dollars.trim().parse().ok().and_then(Usd::from_dollars);
            dollars.filter(|usd| *usd > Usd::ZERO).map(Cap::Cost)
        }
        None => token_count(text)
            .filter(|tokens| *tokens >= 1_000)
            .map(|tokens| Cap::Tokens(tokens.into())),
    };
    cap.ok_or_else(|| {
        let wanted = "dollars, like $5 or $0.50, or at least 1000 tokens, like 500k or 20M";
        mismatch(text, wanted)
    })
}

/// Parses a threshold: a share from 0 to 1 or 0% to 100% in hundredths, or a number of tokens.
/// Further digits are rejected instead of rounded, and so is a number that could mean either.
pub(super) fn threshold(raw: &RawValue) -> Result<ThresholdSetting, String> {
    let text = single_text(raw)?;
    let trimmed = text.trim();
    let share = match trimmed.strip_suffix('%') {
        Some(percent) => digits(percent.trim_end()),
        None => hundredths(trimmed),
    };
    let share = share.filter(|share| *share <= 100).map(ThresholdSetting::Percent);
    let tokens = || {
        let number = token_count(trimmed)?;
        (1_000..=MAX_TOKENS)
            .contains(&number)
            .then(|| ThresholdSetting::Tokens(Tokens::new(number)))
    };
    share.or_else(tokens).ok_or_else(|| {
        mismatch(
            text,
            "a share in hundredths, like 0.85 or 85%, or a number of tokens of at least 1000, like \
             150000 or 150k",
        )
    })
}

fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let plain = !(whole.is_empty() && part.is_empty()) && part.len() <= 2;
    plain.then(|| digits(&format!("{whole}{part:0<2}"))).flatten()
}

/// Returns a number with one of `units`, multiplied by the factor of the unit; `None` above `most`.
fn scaled(text: &str, units: &[(&str, u64)], most: u64) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor).filter(|total| *total <= most)
}

#[cfg(test)]
mod tests {
    use super::super::parse::optional;
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better at its calls")]
    fn check<T: PartialEq + std::fmt::Debug>(
        read: fn(&RawValue) -> Result<T, String>,
        input: &str,
        expect: Option<T>,
    ) {
        assert_eq!(read(&RawValue::Text(input.into())).ok(), expect, "{input:?}");
    }

    #[test]
    fn tokens_are_whole_numbers_with_or_without_a_suffix() {
        for (text, expect) in [
            ("32768", Some(32_768)),
            ("32_768", Some(32_768)),
            (" 32k ", Some(32_000)),
            ("32 K", Some(32_000)),
            ("1M", Some(1_000_000)),
            ("1.5m", Some(1_500_000)),
            ("4.096k", Some(4_096)),
            ("4.0961k", None),
            ("1.5", None),
            ("1.k", None),
            (".5k", None),
            ("k", None),
            ("-1k", None),
            ("1kk", None),
            ("1G", None),
            ("5000000k", None),
            ("", None),
        ] {
            assert_eq!(token_count(text), expect, "{text:?}");
        }
    }

    #[test]
    fn a_token_count_keeps_to_its_range_and_may_be_left_open() {
        check(optional!(tokens::<10, 20>), "", Some(None));
        check(optional!(tokens::<10, 20>), "1_5", Some(Some(Tokens::new(15))));
        check(optional!(tokens::<10, 20>), "21", None);
        check(optional!(tokens::<10, 20>), "1k", None);
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
    fn thresholds_are_hundredths_or_token_counts() {
        for (text, hundredth) in [
            ("0", 0),
            ("0.85", 85),
            (".9", 90),
            ("1", 100),
            ("1.00", 100),
            ("90%", 90),
            (" 7 % ", 7),
        ] {
            check(threshold, text, Some(ThresholdSetting::Percent(hundredth)));
        }
        for (text, tokens) in [
            ("1000", 1_000),
            ("150_000", 150_000),
            (" 200000 ", 200_000),
            ("150k", 150_000),
            ("1M", 1_000_000),
            ("1.0M", 1_000_000),
        ] {
            check(threshold, text, Some(ThresholdSetting::Tokens(Tokens::new(tokens))));
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
            "0.85k",
        ] {
            check(threshold, text, None);
        }
    }
}
