//! Words by which a user rules, approves and corrects, read from decoded text in many languages.
//!
//! Vocabulary stands in the text files of `user_words`; [`phrases`] explains their notation.

mod approval;
mod phrases;
mod pieces;
mod proposals;
mod replacement;
mod rule_marks;
mod sentences;

pub(crate) use approval::approves;
pub(crate) use pieces::{Piece, pieces};
pub(crate) use proposals::proposal;
pub(crate) use replacement::RuleWords;
pub(crate) use rule_marks::has_rule_mark;
pub(crate) use sentences::sentences;

#[cfg(test)]
mod tests;
