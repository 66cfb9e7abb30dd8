//! Reader of one part of a content or an output. Chat completions and Responses write the parts alike.

use crate::conversation::{ContentPart, PartKind};
use crate::dialect::body_reader::BodyReader;
use crate::dialect::bypass::Bypass;
use crate::dialect::part_estimate::part_tokens;
use crate::dialect::request_keys::{SeenKeys, keys, known_key};
use crate::dialect::request_values::string_or_null;
use crate::json::scanner::{Literal, NotJson, Scanner};

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
                Some(key) if key == mark => {
                    let value = scanner.value()?;
                    cache_mark = (value.slice(scanner.text()) != "null").then_some(value);
                }
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
        return Ok(scanner.value()?.slice(scanner.text()) == r#""low""#);
    }
    let mut is_low = false;
    scanner.object(|scanner, key| {
        let value = scanner.value()?.slice(scanner.text());
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
