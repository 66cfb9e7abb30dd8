//! Tokens, dollars and durations in few characters, for lines that people read at a glance.

use std::time::Duration;

use longhaul_core::units::usd::Usd;

/// Billionths of a dollar per dollar.
const NANOS_PER_USD: f64 = 1e9;

/// Formats tokens with at most four significant characters: `812`, `35.9k`, `123k`, `1.20M`.
pub fn short_tokens(tokens: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "only three digits of the number are shown")]
    let number = tokens as f64;
    if tokens < 1_000 {
        tokens.to_string()
    } else if tokens < 99_950 {
        format!("{:.1}k", number / 1e3)
    } else if tokens < 999_500 {
        format!("{:.0}k", number / 1e3)
    } else {
        format!("{:.2}M", number / 1e6)
    }
}

/// Formats an amount with cents, or with two significant digits below a cent.
pub fn short_usd(usd: Usd) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    let dollars = usd.as_nanos() as f64 / NANOS_PER_USD;
    let sign = if dollars < 0.0 { "−" } else { "" };
    let dollars = dollars.abs();
    let digits = if dollars == 0.0 || dollars >= 0.095 {
        2
    } else if dollars >= 0.0095 {
        3
    } else if dollars >= 0.000_95 {
        4
    } else {
        6
    };
    format!("{sign}${dollars:.digits$}")
}

/// Formats a duration in milliseconds below ten seconds, and in seconds above.
pub fn short_duration(took: Duration) -> String {
    let millis = took.as_millis();
    if millis < 10_000 { format!("{millis} ms") } else { format!("{:.1} s", took.as_secs_f64()) }
}

/// Returns `part` of `whole` in whole percent; `None` if `whole` is zero.
pub fn percent(part: u64, whole: u64) -> Option<u64> {
    part.saturating_mul(100).checked_div(whole)
}

/// Parses a number of tokens. `k` stands for a thousand and `M` for a million, in either case; a
/// number with a suffix may have decimals. `None` if the number is not whole, or too large.
pub fn token_count(text: &str) -> Option<u32> {
    let text = text.trim();
    let (number, zeros) = match text.strip_suffix(['k', 'K', 'm', 'M']) {
        Some(number) if text.ends_with(['k', 'K']) => (number.trim_end(), 3),
        Some(number) => (number.trim_end(), 6),
        None => (text, 0),
    };
    let number = number.replace('_', "");
    let (whole, decimals) = match number.split_once('.') {
        Some((whole, decimals)) if !decimals.is_empty() => (whole, decimals),
        Some(_) => return None,
        None => (number.as_str(), ""),
    };
    if whole.is_empty() || decimals.len() > zeros {
        return None;
    }
    digits(&format!("{whole}{decimals:0<zeros$}"))
}

/// Parses an unsigned integer.
pub fn digits(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_three_digits_or_less() {
        let tokens = [0, 812, 1_000, 35_855, 99_949, 99_950, 999_499, 1_204_000].map(short_tokens);
        let expect = ["0", "812", "1.0k", "35.9k", "99.9k", "100k", "999k", "1.20M"];
        assert_eq!(tokens, expect);
        let usd = |nanos| short_usd(Usd::from_nanos(nanos));
        let written = [0, 1_230_000_000, 90_000_000, 4_500_000, 120_000, -2_500_000_000].map(usd);
        assert_eq!(written, ["$0.00", "$1.23", "$0.090", "$0.0045", "$0.000120", "−$2.50"]);
        let took = [44, 9_999, 12_345].map(|millis| short_duration(Duration::from_millis(millis)));
        assert_eq!(took, ["44 ms", "9999 ms", "12.3 s"]);
        assert_eq!((percent(1, 3), percent(0, 0)), (Some(33), None));
    }
}
