//! Quantities and keys with types of their own.

pub mod recall_id;
pub mod scope;
pub mod tokens;
pub mod usd;
