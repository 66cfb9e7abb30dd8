//! Texts that longhaul writes into a conversation, and the delimiters around quoted text.

pub(crate) mod delimiters;
pub mod labels;
mod lookalikes;
pub(crate) mod prose;
pub mod wording;
