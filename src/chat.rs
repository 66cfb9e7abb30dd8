//! The steps that serve a chat.
//!
//! [`prepare`] → [`plan`] → send → [`judge`] → [`retry`] → [`settle`]. Each step takes what the
//! earlier ones returned. [`crate::proxy`] runs them.
//!
//! [`context`], [`refusal`] and [`attempt`] hold what the steps exchange. [`learn`] holds what replies
//! show. `tests/it/tidy/levels.rs` holds the order of the files.

mod adopt;
pub(crate) mod attempt;
pub(crate) mod context;
pub(crate) mod count;
pub(crate) mod explanation;
pub(crate) mod explicit_compaction;
pub(crate) mod gateway;
pub(crate) mod judge;
mod keep;
pub(crate) mod learn;
mod notices;
mod output_limit;
pub(crate) mod plan;
pub(crate) mod prepare;
mod provider;
mod recall;
mod recovery;
mod refusal;
mod refutation;
pub(crate) mod retry;
pub(crate) mod rewrite;
mod second_attempt;
pub(crate) mod settle;
mod summarise;
#[cfg(test)]
mod test_support;
pub(crate) mod unanswered_call;
