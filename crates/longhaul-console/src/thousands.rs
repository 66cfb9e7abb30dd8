//! Numbers formatted for people.

/// Formats a number with commas between thousands.
pub fn with_thousands(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_thousands_separators() {
        let written = [0_u32, 999, 1_000, 123_456, 4_294_967_295].map(with_thousands);
        assert_eq!(written, ["0", "999", "1,000", "123,456", "4,294,967,295"]);
    }
}
