//! A single send of a chat, with its plan inputs and its plan.

use tokio::time::Instant;

use crate::account::AccountCause;
use crate::chat::retry::Retry;
use crate::metrics::RetryReason;
use longhaul_core::conversation::Conversation;
use longhaul_core::planning::plan::RequestPlan;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::units::tokens::Tokens;

/// Inputs of a chat's plan. A summary that was waited for updates the prior records; a retry after
/// a refusal has its own policy.
#[derive(Clone, Debug)]
pub(crate) struct PlanInputs {
    pub(super) policy: Policy,
    /// Records found for prefixes of this conversation.
    pub(super) prior_records: PriorRecords,
    /// Deadline for waiting for summaries. `None` until the request first waits.
    pub(super) deadline: Option<Instant>,
}

/// A single send of a chat, first or retry.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(super) inputs: PlanInputs,
    pub(super) plan: RequestPlan,
    /// Details of the retry. `None` for the first send.
    pub(super) retry: Option<Retry>,
    /// Event that led to the plan.
    pub(super) cause: AccountCause,
}

impl PlanInputs {
    /// Returns the record in use.
    pub(super) fn adopted(&self) -> Option<&CompactionRecord> {
        self.prior_records
            .adopted
            .as_ref()
            .map(|found| &*found.record)
    }
}

impl Attempt {
    pub(super) fn retry(inputs: PlanInputs, plan: RequestPlan, retry: Retry) -> Self {
        Self {
            inputs,
            plan,
            cause: retry.cause(),
            retry: Some(retry),
        }
    }

    /// Returns the view of the conversation that is sent.
    pub(super) fn view(&self) -> &ForwardedView {
        &self.plan.view
    }

    /// Returns the plain estimate of the tokens that are sent.
    pub(super) fn tokens(&self, conversation: &Conversation<'_>) -> Tokens {
        self.view().tokens(conversation)
    }

    /// Returns the reason for the retry. `None` for the first send.
    pub(crate) fn retry_reason(&self) -> Option<RetryReason> {
        self.retry.as_ref().map(Retry::reason)
    }
}
