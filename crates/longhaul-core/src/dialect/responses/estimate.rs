//! Token estimates of items.

use crate::units::tokens::Tokens;

/// Overhead of one item in common chat templates.
pub(super) const ITEM_OVERHEAD_TOKENS: Tokens = Tokens::new(4);
/// Bytes of an encrypted text that carry no tokens. Codex subtracts the number in its own estimate.
const ENCRYPTION_OVERHEAD_BYTES: u32 = 650;

/// Estimates the text in `chars` characters of encrypted base64, by Codex's own formula.
pub(super) fn encrypted_tokens(chars: u32) -> Tokens {
    let bytes = chars / 4 * 3;
    Tokens::estimate_chars(bytes.saturating_sub(ENCRYPTION_OVERHEAD_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_encrypted_text_is_estimated_at_zero() {
        for (chars, expect) in [(0, 0), (400, 0), (868, 0), (2_000, 212), (u32::MAX, 805_306_204)] {
            assert_eq!(encrypted_tokens(chars), Tokens::new(expect), "{chars}");
        }
    }
}
