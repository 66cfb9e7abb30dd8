//! Wire dialects: the keys, texts and events of each API.

pub mod bypass;
pub mod chat_completions;
pub mod content_json;
pub mod continuation;
pub mod sse;
pub mod usage;
