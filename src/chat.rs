//! A chat request: its parsed conversation, its settings, and the steps that serve it.
//!
//! [`prepare`] → [`plan`] → send → [`judge`] → [`retry`] → [`settle`]. Each step takes what the
//! earlier ones returned. [`crate::proxy`] runs them.

mod adopt;
pub(crate) mod attempt;
pub(crate) mod context;
pub(crate) mod count;
pub(crate) mod explanation;
pub(crate) mod explicit_compaction;
pub(crate) mod judge;
mod media;
mod notices;
mod output_limit;
mod placement;
pub(crate) mod plan;
pub(crate) mod prepare;
mod recall;
mod recovery;
mod refusal;
pub(crate) mod retry;
pub(crate) mod rewrite;
pub(crate) mod settle;
mod summary;
mod summary_call;
mod summary_task;
#[cfg(test)]
mod test_support;
mod thinking;
pub(crate) mod unanswered_call;
pub(crate) mod window;
