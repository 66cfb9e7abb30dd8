//! The word by which a value is serialised, for text.

use std::fmt;

use serde::Serialize;

/// Displays a value of an enum without fields as its serialised word.
pub struct Word<T>(pub T);

impl<T: Serialize> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(f)
    }
}
