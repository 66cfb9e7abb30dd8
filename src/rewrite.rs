//! Decision core: reads, plans and splices conversations, and judges replies.
//!
//! Everything below this module is pure: no runtime, network, clock, file system or environment.
//! Each decision can therefore be replayed from a fixture.

mod arguments;
pub mod brief;
pub mod bypass;
pub mod chain;
pub mod chat_completions;
pub mod compact;
pub mod continuation;
pub mod conversation;
pub mod cut_point;
pub mod digest;
mod fence;
pub(crate) mod generations;
pub mod housekeeping;
pub mod images;
pub mod index;
mod labels;
pub mod ledger;
pub mod money;
pub mod overflow;
pub mod pace;
pub mod placeholder;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod prompts;
pub mod prune;
pub mod recall;
pub mod record;
pub mod replay;
pub mod reread;
pub mod said;
mod scan;
pub mod span;
pub mod splice;
pub mod sse;
mod stand_in;
pub mod summary;
pub mod title;
pub mod tokens;
pub mod transcript;
pub mod usage;
pub mod view;
pub mod window;
pub mod wording;

pub use scan::Literal;

/// Version of everything that determines forwarded bytes: wording, token estimate, pruning and
/// prefix hashes. A release that changes forwarded bytes raises this number and says so in the
/// changelog.
pub const FORM_VERSION: u32 = 2;

#[cfg(test)]
mod tests {
    mod form;
}
