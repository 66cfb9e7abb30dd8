//! JSON text as spans, and lenient reading of the small JSON of replies.

pub(crate) mod last_values;
pub(crate) mod lenient;
pub(crate) mod quote;
pub mod scanner;
pub mod span;
