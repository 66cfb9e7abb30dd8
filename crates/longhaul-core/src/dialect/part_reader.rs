//! Reader of one part of a content or an output, and the estimate of its tokens. Chat completions and
//! Responses write the parts alike.

use crate::conversation::{ContentPart, PartKind};
use crate::dialect::body_reader::BodyReader;
use crate::dialect::bypass::Bypass;
use crate::dialect::request_values::{SeenKeys, keys, known_key, read_mark, string_or_null};
use crate::json::scanner::{Literal, NotJson, Scanner};
use crate::units::tokens::Tokens;

keys! {
    /// Keys of a part of a content or an output.
    PartKey {
        CacheBreakpoint = "prompt_cache_breakpoint",
        CacheControl = "cache_control",
        Stderr = "stderr",
        Stdout = "stdout",
        Text = "text",
        Type = "type",
    } shared {
        Detail = "detail" | "image_url",
    }
}

impl<Own> BodyReader<'_, Own> {
    /// Reads a part whose cache mark has the key `mark`, and adds the part to the pieces. Adds the texts of a
    /// chunk of a shell's output to `chunk_texts`, in the order of the body.
    pub(super) fn part(
        &mut self,
        scanner: &mut Scanner<'_>,
        mark: PartKey,
        chunk_texts: &mut Vec<Literal>,
    ) -> Result<(), Bypass> {
        self.check_piece_limit()?;
        let mut seen = SeenKeys::default();
        let mut kind = PartKind::Other;
        let (mut text, mut cache_mark, mut is_coarse) = (None, None, false);
        let span = scanner.object(|scanner, key| {
            match seen.next(scanner, key)? {
                Some(PartKey::Type) => {
                    let name = string_or_null(scanner)?;
                    kind = name.map_or(PartKind::Other, |name| {
                        kind_from_type(&name.decode(scanner.text()))
                    });
                }
                Some(PartKey::Text) => text = string_or_null(scanner)?,
                Some(PartKey::Stderr | PartKey::Stdout) if scanner.peek() == Some(b'"') => {
                    chunk_texts.push(scanner.string()?);
                }
                Some(PartKey::Detail) => is_coarse |= read_low_detail(scanner)?,
                Some(key) if key == mark => cache_mark = read_mark(scanner)?,
                Some(_) | None => scanner.skip()?,
            }
            Ok::<(), Bypass>(())
        })?;
        self.pieces.parts.push(ContentPart {
            kind,
            span,
            text,
            cache_mark,
            tokens: part_tokens(kind, is_coarse, span.slice(scanner.text())),
        });
        Ok(())
    }
}

/// Reads the value of `detail`, or an `image_url` object with that key. Returns whether the detail
/// is `"low"`.
fn read_low_detail(scanner: &mut Scanner<'_>) -> Result<bool, NotJson> {
    if scanner.peek() != Some(b'{') {
        return Ok(scanner.json()? == r#""low""#);
    }
    let mut is_low = false;
    scanner.object(|scanner, key| {
        let value = scanner.json()?;
        is_low |= known_key(scanner, key) == Some(PartKey::Detail) && value == r#""low""#;
        Ok::<(), NotJson>(())
    })?;
    Ok(is_low)
}

/// Returns the kind of a part. Servers accept the names of sibling APIs.
pub(super) fn kind_from_type(name: &str) -> PartKind {
    match name {
        "text" | "input_text" | "output_text" => PartKind::Text,
        "image_url" | "image" | "input_image" => PartKind::Image,
        "input_audio" | "audio" | "audio_url" => PartKind::Audio,
        "file" | "input_file" | "document" | "document_url" => PartKind::File,
        "thinking" | "redacted_thinking" => PartKind::Thinking,
        "video_url" | "video" | "input_video" => PartKind::Video,
        _ => PartKind::Other,
    }
}

/// Tokens of an image, whatever its size in bytes: close to what providers bill at ordinary
/// resolution. Counting base64 as text is wrong by two orders of magnitude.
const IMAGE_TOKENS: Tokens = Tokens::new(1_200);
/// Tokens that `OpenAI` documents for an image with `detail: "low"`.
const LOW_DETAIL_IMAGE_TOKENS: Tokens = Tokens::new(85);
/// Bytes per token of an inline document, on top of one image for its first page.
///
/// Provider guides count a page as 560 tokens (Gemini), as 1,500 to 3,000 and its image
/// (Anthropic), or as its text and its image (`OpenAI`). A page of text takes 30 KB of base64, a
/// scanned page about 250 KB. An estimate that is too low costs a refusal, from which longhaul
/// recovers. An estimate that is too high removes a document that would have fitted.
const FILE_BYTES_PER_TOKEN: usize = 128;
/// Bytes per token of inline audio and video. Gemini counts 32 tokens per second of audio and about
/// 260 of video. A token is thus 1,300 bytes of 16 kHz speech, 670 bytes of common MP3, or 600 to
/// 3,000 bytes of video.
const RECORDING_BYTES_PER_TOKEN: usize = 1_024;
/// Upper limit for one part with base64 content, in tokens.
const MAX_PART_TOKENS: usize = 20_000;
/// Bytes in the middle of a part that are checked for base64.
const SAMPLE_BYTES: usize = 128;

/// Returns the plain estimate of a part with this kind, spelt `raw`; zero for text, which counts
/// with its message.
pub(in crate::dialect) fn part_tokens(kind: PartKind, is_coarse: bool, raw: &str) -> Tokens {
    let bytes = raw.len();
    match kind {
        PartKind::Text => Tokens::ZERO,
        PartKind::Image if is_coarse => LOW_DETAIL_IMAGE_TOKENS,
        PartKind::Image | PartKind::Screenshot => IMAGE_TOKENS,
        PartKind::Other | PartKind::Thinking if is_base64(raw) => {
            capped_tokens(bytes / 4).min(file_tokens(bytes))
        }
        PartKind::Other | PartKind::Thinking => Tokens::estimate_text(raw),
        PartKind::File if is_base64(raw) => file_tokens(bytes),
        PartKind::Audio | PartKind::Video if is_base64(raw) => {
            capped_tokens(bytes / RECORDING_BYTES_PER_TOKEN)
        }
        // A reference, or a document in plain text.
        PartKind::Audio | PartKind::File | PartKind::Video => {
            IMAGE_TOKENS.max(Tokens::estimate_text(raw))
        }
    }
}

fn file_tokens(bytes: usize) -> Tokens {
    (IMAGE_TOKENS + capped_tokens(bytes / FILE_BYTES_PER_TOKEN)).min(capped_tokens(MAX_PART_TOKENS))
}

fn capped_tokens(tokens: usize) -> Tokens {
    Tokens::new(u32::try_from(tokens.min(MAX_PART_TOKENS)).unwrap_or(u32::MAX))
}

/// Whether the middle of a part is base64, possibly with escaped slashes. Only a sample is checked.
fn is_base64(raw: &str) -> bool {
    let from = raw.len().saturating_sub(SAMPLE_BYTES) / 2;
    let sample = raw.as_bytes().get(from..from + SAMPLE_BYTES);
    sample.is_some_and(|sample| {
        let is_of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(byte);
        sample.iter().all(is_of_base64)
    })
}
