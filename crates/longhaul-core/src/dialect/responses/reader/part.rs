//! Parts of a content or an output.

use super::RequestReader;
use crate::conversation::{ContentPart, PartKind};
use crate::dialect::bypass::Bypass;
use crate::dialect::part_estimate;
use crate::dialect::request_keys::SeenKeys;
use crate::dialect::request_values::string_or_null;
use crate::dialect::responses::keys::PartKey;
use crate::json::scanner::{Literal, Scanner};
use crate::json::span::Span;

/// The elements of an array of parts.
#[derive(Debug, Default)]
pub(super) struct PartList {
    /// Texts of the chunks of a shell's output, in the order of the body.
    pub(super) chunk_texts: Vec<Literal>,
    /// Whether an element is not an object.
    pub(super) has_odd_element: bool,
}

impl RequestReader<'_> {
    pub(super) fn part_list(
        &mut self,
        scanner: &mut Scanner<'_>,
    ) -> Result<(Span, PartList), Bypass> {
        let mut list = PartList::default();
        let span = scanner.array(|scanner| {
            if scanner.peek() == Some(b'{') {
                return self.part(scanner, &mut list.chunk_texts);
            }
            list.has_odd_element = true;
            Ok(scanner.skip()?)
        })?;
        Ok((span, list))
    }

    fn part(
        &mut self,
        scanner: &mut Scanner<'_>,
        chunk_texts: &mut Vec<Literal>,
    ) -> Result<(), Bypass> {
        self.check_piece_limit()?;
        let mut seen = SeenKeys::default();
        let mut kind = PartKind::Other;
        let mut text = None;
        let mut cache_mark = None;
        let mut is_coarse = false;
        let span = scanner.object(|scanner, key| {
            match seen.next(scanner, key)? {
                Some(PartKey::Type) => {
                    let name = string_or_null(scanner)?;
                    kind = name.map_or(PartKind::Other, |name| {
                        kind_from_type(&name.decode(scanner.text()))
                    });
                }
                Some(PartKey::Text) => text = string_or_null(scanner)?,
                Some(PartKey::Stderr | PartKey::Stdout) => {
                    if scanner.peek() == Some(b'"') {
                        chunk_texts.push(scanner.string()?);
                    } else {
                        scanner.skip()?;
                    }
                }
                Some(PartKey::Detail) => {
                    is_coarse = scanner.value()?.slice(scanner.text()) == r#""low""#;
                }
                Some(PartKey::CacheMark) => {
                    let value = scanner.value()?;
                    cache_mark = (value.slice(scanner.text()) != "null").then_some(value);
                }
                None => scanner.skip()?,
            }
            Ok::<(), Bypass>(())
        })?;
        self.pieces.parts.push(ContentPart {
            kind,
            span,
            text,
            cache_mark,
            tokens: part_estimate::part_tokens(kind, is_coarse, span.slice(scanner.text())),
        });
        Ok(())
    }
}

fn kind_from_type(name: &str) -> PartKind {
    match name {
        "input_text" | "output_text" | "text" => PartKind::Text,
        "input_image" => PartKind::Image,
        "input_audio" => PartKind::Audio,
        "input_file" => PartKind::File,
        "input_video" => PartKind::Video,
        _ => PartKind::Other,
    }
}
