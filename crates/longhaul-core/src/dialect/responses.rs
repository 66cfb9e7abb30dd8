//! The dialect of `POST …/responses`: the meaning of each key.

mod estimate;
mod keys;
mod reader;
pub(super) mod reply;
pub(super) mod steps;
pub(super) mod summary_request;
mod tool_names;
pub(super) mod writer;

pub use reader::read;
pub(super) use reader::read_with;

/// End of the path. Codex, Azure and gateways serve responses under longer paths. Paths of stored
/// responses continue after it, and `…/responses/compact` is another API.
pub(super) const PATH: &str = "/responses";
/// Endpoints that run models. Agents poll, cancel and continue their responses by id.
pub(super) const KEY_PATHS: &[&str] = &["responses", "responses/*"];
/// Key of a mark up to which the provider caches the prompt.
pub(super) const CACHE_MARK_KEY: &str = "prompt_cache_breakpoint";
/// Keys of the output limit.
pub(super) const OUTPUT_LIMIT_KEYS: &[&str] = &["max_output_tokens"];
