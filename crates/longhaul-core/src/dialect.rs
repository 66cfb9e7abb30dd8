//! Wire dialects: the keys, texts and events of each API.
//!
//! Each seam is a method of [`Dialect`] that matches exhaustively and delegates into the folder of
//! the dialect. No code outside this room names a key of a request or a reply.

pub mod bypass;
pub mod chat_completions;
pub mod content_json;
pub mod continuation;
pub mod sse;
pub mod usage;

/// An API's wire format.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Dialect {
    /// `POST …/chat/completions`.
    ChatCompletions,
}
