//! Anthropic's Messages API: recorded sessions of Claude Code, random ones, and the whole proxy.

mod cache_marks;
mod client_compaction;
mod clouds;
mod counted;
mod counted_output;
mod histories;
mod media;
mod oracle;
mod output;
mod proxied;
mod recorded;
mod subject;
pub(crate) mod thinking;
mod thinking_changes;
pub(crate) mod validity;
