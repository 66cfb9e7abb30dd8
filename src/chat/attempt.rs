//! A single send of a chat, with its plan inputs and its plan.

use http::StatusCode;
use tokio::time::Instant;

use crate::chat::context::Chat;
use crate::chat::refusal::{RefusedAttempt, Retry};
use crate::config::Mode;
use crate::explanation::PlanCause;
use crate::learned::windows::accepted_sizes::RequestSize;
use crate::metrics::RetryReason;
use longhaul_core::conversation::Conversation;
use longhaul_core::cost::comparison::BilledRequest;
use longhaul_core::overflow::Overflow;
use longhaul_core::planning::plan::RequestPlan;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::units::body_limits::BodyLimits;
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
    /// Whether longhaul added cache marks to the body.
    pub(super) is_marked: bool,
    /// Event that led to the plan.
    pub(super) cause: PlanCause,
}

/// The decision after the first reply.
#[derive(Debug)]
pub(crate) enum RetryDecision {
    /// Relay the overflow because nothing would fit, so that the agent's own recovery still works.
    GiveUp,
    /// Relay the reply.
    Relay,
    /// Send a retry.
    Retry(Box<Attempt>),
}

impl PlanInputs {
    /// Returns the record in use.
    pub(super) fn adopted(&self) -> Option<&CompactionRecord> {
        let adopted = self.prior_records.adopted.as_ref();
        adopted.map(|found| &*found.record)
    }
}

impl Attempt {
    pub(super) fn retry(inputs: PlanInputs, plan: RequestPlan, retry: Retry) -> Self {
        Self { inputs, plan, is_marked: false, cause: retry.cause(), retry: Some(retry) }
    }

    /// Returns the view of the conversation that is sent.
    pub(crate) fn view(&self) -> &ForwardedView {
        &self.plan.view
    }

    /// Returns the plain estimate of the tokens that are sent.
    pub(super) fn tokens(&self, conversation: &Conversation<'_>) -> Tokens {
        self.view().tokens(conversation)
    }

    /// Returns the sizes that decide whether requests like this fit.
    pub(super) fn sent_size(&self, conversation: &Conversation<'_>) -> RequestSize {
        RequestSize { tokens: self.tokens(conversation), tools: conversation.params().tool_tokens }
    }

    /// Returns the refusal of the attempt with `status`. Until more is known, it shows no limits on the body.
    pub(super) fn refused(
        &self,
        conversation: &Conversation<'_>,
        status: StatusCode,
        overflow: Overflow,
    ) -> RefusedAttempt {
        RefusedAttempt {
            tokens: self.tokens(conversation),
            window: self.inputs.policy.thresholds.window,
            status,
            overflow,
            body: BodyLimits::UNKNOWN,
        }
    }

    /// Returns the sizes that the attempt is billed by. In shadow mode the forwarded size is the
    /// original one.
    pub(super) fn billed(&self, chat: &Chat<'_>) -> BilledRequest {
        let before = chat.request.conversation.tokens();
        let after = match chat.mode {
            Mode::On => self.tokens(chat.request.conversation),
            Mode::Off | Mode::Shadow => before,
        };
        BilledRequest { before, after, window: self.inputs.policy.thresholds.window }
    }

    /// Returns the reason for the retry. `None` for the first send.
    pub(crate) fn retry_reason(&self) -> Option<RetryReason> {
        self.retry.as_ref().map(Retry::reason)
    }
}

impl RetryDecision {
    pub(super) fn retry(attempt: Attempt) -> Self {
        Self::Retry(Box::new(attempt))
    }
}
