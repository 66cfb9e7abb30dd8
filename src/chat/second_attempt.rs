//! Builds a retry of a first attempt, with another view or another plan.

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::learn::thinking;
use crate::chat::refusal::Retry;
use longhaul_core::planning::plan::RequestPlan;
use longhaul_core::planning::view::ForwardedView;

/// Creates a retry of `first` with another view.
pub(super) fn with_view(
    chat: &Chat<'_>,
    first: &Attempt,
    view: ForwardedView,
    retry: Retry,
) -> Attempt {
    with_plan(chat, first, RequestPlan::from_view(view), retry)
}

/// Creates a retry of `first` with another plan.
pub(super) fn with_plan(
    chat: &Chat<'_>,
    first: &Attempt,
    plan: RequestPlan,
    retry: Retry,
) -> Attempt {
    let mut inputs = first.inputs.clone();
    inputs.prior_records = thinking::for_last_send(chat, &inputs.prior_records);
    let thinking = &inputs.prior_records.thinking;
    let mut plan = plan.without_stale_thinking(chat.request.conversation, thinking);
    let decisions = plan.decisions.take();
    plan.decisions = decisions.or_else(|| first.plan.decisions.clone());
    Attempt::retry(inputs, plan, retry)
}
