//! The oracle: a slow and literal implementation, on a tree, of reading bodies and clearing
//! results.
//!
//! The oracle shares no code with the product. It uses a `serde_json::Value` instead of spans, and
//! applies the rule from scratch to every earlier request of the history instead of keeping a prune
//! state.

pub(crate) mod pruner;
pub(crate) mod reader;
pub(crate) mod words;
