//! Explanations of requests in words: what became of each message, by which rule, and why.
//!
//! `longhaul explain`, the dashboard and the admin listener show the same report.

pub(crate) mod cause;
mod ids;
pub(crate) mod report;
pub(crate) mod stored;
pub(crate) mod table;
pub(crate) mod verdict;

pub(crate) use cause::{PlanCause, Refusal};
pub(crate) use ids::{ConversationId, RequestId};
pub(crate) use stored::{ExplanationContext, StoredExplanation};
