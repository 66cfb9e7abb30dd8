//! The dialect of `POST …/v1/messages`: the meaning of each key.

mod block;
pub(super) mod client;
mod context_management;
pub(super) mod errors;
mod keys;
mod reader;
pub(super) mod reply;
pub(super) mod server_tools;
pub(super) mod summary_request;
mod turns;
pub(super) mod writer;

use crate::units::tokens::Tokens;

pub(super) use reader::read_with;
pub use reader::{has_own_shape, read};

/// End of the path, after the version of the API. Gateways serve both below a path of their own.
pub(super) const PATH: &str = "/messages";
/// [`PATH`] after the version. Other APIs have paths that end alike.
pub(super) const DISTINCT_PATH: &str = "/v1/messages";
/// End of the path that counts the tokens of a request, after [`PATH`].
pub(super) const COUNT_PATH: &str = "/count_tokens";
/// Endpoints that run models.
pub(super) const KEY_PATHS: &[&str] = &["messages", "messages/count_tokens"];
/// Key of a mark up to which the provider caches the prompt.
pub(super) const CACHE_MARK_KEY: &str = "cache_control";
/// Keys of the output limit.
pub(super) const OUTPUT_LIMIT_KEYS: &[&str] = &["max_tokens"];
/// Added to the form version, so that it differs from those of the other dialects.
pub(super) const FORM: u32 = 2 << 16;
/// Lowest output limit that longhaul sets: the floor at which Claude Code compacts instead.
pub(super) const MIN_OUTPUT: Tokens = Tokens::new(3_000);
