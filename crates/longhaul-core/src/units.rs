//! Quantities with types of their own.

pub mod tokens;
