//! Parts of a content or an output.

use super::RequestReader;
use crate::dialect::bypass::Bypass;
use crate::dialect::part_reader::PartKey;
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
                return self.part(scanner, PartKey::CacheBreakpoint, &mut list.chunk_texts);
            }
            list.has_odd_element = true;
            Ok(scanner.skip()?)
        })?;
        Ok((span, list))
    }
}
