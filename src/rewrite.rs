//! What decides: reading, planning and splicing conversations, judging replies.
//!
//! Everything below this module is pure. It knows no runtime, no network, no clock, no file and no
//! environment, so each decision can be replayed from a fixture.

mod arguments;
pub mod bypass;
pub mod chat_completions;
pub mod conversation;
pub mod overflow;
pub mod plan;
pub mod policy;
pub mod prune;
mod scan;
pub mod span;
pub mod splice;
pub mod sse;
mod stand_in;
pub mod tokens;
pub mod wording;

pub use scan::Literal;

/// The version of everything that decides on forwarded bytes: wording, estimate, fold and hash. A
/// release that changes forwarded bytes raises it and says so in the changelog.
pub const FORM_VERSION: u32 = 1;
