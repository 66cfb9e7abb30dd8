//! Clearing of old tool results.

pub mod placeholder;
pub mod rule;
pub mod tool_result;
