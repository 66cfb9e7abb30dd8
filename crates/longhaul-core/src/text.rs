//! Texts that longhaul writes into a conversation, and the delimiters around quoted text.

pub(crate) mod delimiters;
pub mod labels;
mod lookalikes;
pub(crate) mod prose;
pub mod wording;

use std::borrow::Cow;
use std::ops::Range;

/// Returns `text` with the other text of each edit in place of its range. The ranges ascend.
pub(crate) fn with_edits(
    text: Cow<'_, str>,
    edits: impl IntoIterator<Item = (Range<usize>, &'static str)>,
) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (range, other) in edits {
        out.extend([text.get(copied..range.start).unwrap_or_default(), other]);
        copied = range.end;
    }
    if out.is_empty() {
        return text;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out.into()
}
