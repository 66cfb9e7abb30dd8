//! JSON text as spans: the scanner finds values and never builds them.

pub(crate) mod quote;
pub mod scanner;
pub mod span;
