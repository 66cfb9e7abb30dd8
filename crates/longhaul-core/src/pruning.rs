//! Clearing of old tool results.

pub mod placeholder;
pub mod rule;
