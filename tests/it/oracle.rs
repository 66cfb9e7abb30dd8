//! The oracle: what a body says and what becomes of it, worked out on a tree, slowly and literally.
//!
//! It shares no code with the product: a `serde_json::Value` where the product has spans, the rule
//! asked from scratch at every request of the history where the product has a fold.

pub(crate) mod pruner;
pub(crate) mod reader;
pub(crate) mod words;
