//! What a part that is no text is estimated at: its bytes say little of what a provider counts.

use super::keys::{RequestKey, known_key};
use crate::rewrite::conversation::PartKind;
use crate::rewrite::scan::{NotJson, Scanner};
use crate::rewrite::tokens::Tokens;

/// What an image costs, whatever its bytes: a flat figure near what providers bill for one at
/// ordinary resolution. Base64 counted as text is off by two orders of magnitude.
const IMAGE_TOKENS: Tokens = Tokens::new(1_200);
/// What `OpenAI` documents for an image that is asked for with `detail: "low"`.
const LOW_DETAIL_IMAGE_TOKENS: Tokens = Tokens::new(85);
/// Of a document inside the request, so many bytes are a token beside the first page's image. By the
/// guides of the providers a page costs 560 tokens (Gemini), 1,500 to 3,000 and its image
/// (Anthropic), its text and its image (`OpenAI`); of base64 it has 30 KB where it is text, and some
/// 250 KB where it was scanned. What is too low costs a refusal that is mended; what is too high
/// takes away a document that would have fitted.
const FILE_BYTES_PER_TOKEN: usize = 128;
/// The same of sound and moving pictures, of which Gemini counts 32 and some 260 tokens a second:
/// 1,300 bytes of 16 kHz speech and 670 of common MP3 are a token, and 600 to 3,000 of video.
const RECORDING_BYTES_PER_TOKEN: usize = 1_024;
/// The most that one part with its content in base64 is taken for, in tokens.
const MAX_PART_TOKENS: usize = 20_000;
/// So many bytes in the middle of a part tell whether it is made of base64.
const SAMPLE_BYTES: usize = 128;

/// The plain estimate of a part of this kind, spelt `raw`; nothing for text, which counts with its
/// message.
pub(super) fn part_tokens(kind: PartKind, is_coarse: bool, raw: &str) -> Tokens {
    let bytes = raw.len();
    match kind {
        PartKind::Text => Tokens::ZERO,
        PartKind::Image if is_coarse => LOW_DETAIL_IMAGE_TOKENS,
        PartKind::Image => IMAGE_TOKENS,
        PartKind::Other if is_base64(raw) => capped_tokens(bytes / 4).min(file_tokens(bytes)),
        PartKind::Other => Tokens::estimate_text(raw),
        PartKind::File if is_base64(raw) => file_tokens(bytes),
        PartKind::Audio | PartKind::Video if is_base64(raw) => {
            capped_tokens(bytes / RECORDING_BYTES_PER_TOKEN)
        }
        // A reference, or a document of plain text.
        PartKind::Audio | PartKind::File | PartKind::Video => {
            IMAGE_TOKENS.max(Tokens::estimate_text(raw))
        }
    }
}

/// Reads what stands under `detail`, or an `image_url` that holds one: whether it is `"low"`.
pub(super) fn read_low_detail(scanner: &mut Scanner<'_>) -> Result<bool, NotJson> {
    if scanner.peek() != Some(b'{') {
        return Ok(scanner.value()?.slice(scanner.text()) == r#""low""#);
    }
    let mut is_low = false;
    scanner.object(|scanner, key| {
        let value = scanner.value()?.slice(scanner.text());
        is_low |= known_key(scanner, key) == Some(RequestKey::Detail) && value == r#""low""#;
        Ok::<(), NotJson>(())
    })?;
    Ok(is_low)
}

fn file_tokens(bytes: usize) -> Tokens {
    (IMAGE_TOKENS + capped_tokens(bytes / FILE_BYTES_PER_TOKEN)).min(capped_tokens(MAX_PART_TOKENS))
}

fn capped_tokens(tokens: usize) -> Tokens {
    Tokens::new(u32::try_from(tokens.min(MAX_PART_TOKENS)).unwrap_or(u32::MAX))
}

/// Whether the middle of a part is base64, be it with its slashes escaped. All of a long one is not
/// looked at.
fn is_base64(raw: &str) -> bool {
    let from = raw.len().saturating_sub(SAMPLE_BYTES) / 2;
    let sample = raw.as_bytes().get(from..from + SAMPLE_BYTES);
    sample.is_some_and(|sample| {
        let is_of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(byte);
        sample.iter().all(is_of_base64)
    })
}
