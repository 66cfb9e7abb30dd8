//! Plans of how a conversation is forwarded, and the splice that carries one out.

pub mod agent_compaction;
pub mod continuation;
pub mod explanation;
pub mod history_fold;
pub mod originals;
pub mod plan;
pub mod recovery;
pub mod splice;
pub mod stale_thinking;
pub mod view;
