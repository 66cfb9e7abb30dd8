//! The dialect of `POST …/chat/completions`: the meaning of each key.

pub(super) mod bound_thinking;
mod called_function;
pub(super) mod errors;
mod keys;
mod reader;
pub(super) mod reply;
pub(super) mod summary_request;
pub(super) mod writer;

use crate::units::tokens::Tokens;

pub use reader::read;
pub(super) use reader::read_with;

/// End of the path. Azure and gateways serve chats under longer paths.
pub(super) const PATH: &str = "/chat/completions";
/// Endpoints that run models. Stored chats belong to the account.
pub(super) const KEY_PATHS: &[&str] = &["chat/completions"];
/// Key of a mark up to which the provider caches the prompt.
pub(super) const CACHE_MARK_KEY: &str = "cache_control";
/// Keys of the output limit.
pub(super) const OUTPUT_LIMIT_KEYS: &[&str] = &["max_tokens", "max_completion_tokens"];
/// Lowest output limit that longhaul sets.
pub(super) const MIN_OUTPUT: Tokens = Tokens::new(1_024);
