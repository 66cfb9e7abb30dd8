//! Quantities and keys with types of their own.

pub mod scope;
pub mod tokens;
pub mod usd;
