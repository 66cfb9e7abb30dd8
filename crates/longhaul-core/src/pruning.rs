//! Clearing of old tool results.

pub(crate) mod argument_clip;
pub mod placeholder;
pub mod rule;
pub mod tool_result;
mod words_in_results;
