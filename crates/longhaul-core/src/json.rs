//! JSON text as spans: the scanner finds values and never builds them.

pub mod scanner;
pub mod span;
