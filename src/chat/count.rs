//! Requests that count the tokens of a chat. The upstream counts what longhaul would forward.
//!
//! A client compares the count with its window, to decide about its own compaction. A count begins
//! nothing: longhaul learns nothing, stores nothing and starts no summary.

use http::StatusCode;

use crate::chat::attempt::PlanInputs;
use crate::chat::context::Chat;
use crate::chat::learn::thinking;
use crate::chat::{plan, rewrite};
use crate::config::Mode;
use crate::metrics::Action;
use crate::report::ChatReport;
use crate::request::buffered_body::FramedBody;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::view::ForwardedView;

/// Builds the body to count, or `None` to count the original. Also returns the view that the body has.
pub(crate) fn counted_body(
    chat: &Chat<'_>,
    inputs: &PlanInputs,
) -> (Option<FramedBody>, ForwardedView, ChatReport) {
    let conversation = chat.request.conversation;
    let plan = plan::plan_in_use(chat, &for_last_send(chat, inputs));
    let mut report = plan::plan_report(conversation, &plan).of_count();
    let (body, report) = match chat.mode {
        Mode::On => match rewrite::rewritten_body(&chat.request, &plan.view) {
            Ok(body) => (body, report),
            Err(why) => (None, ChatReport::untouched(conversation, why).of_count()),
        },
        Mode::Off | Mode::Shadow => {
            if report.bypass() != Some(Bypass::Stateful) {
                report.add(Action::Shadow);
            }
            (None, report)
        }
    };
    (body, plan.view, report)
}

/// Builds the body of the original, without thinking that is bound to earlier edits.
pub(crate) fn original_body(chat: &Chat<'_>, inputs: &PlanInputs) -> FramedBody {
    let plan = plan::unmodified(chat, &for_last_send(chat, inputs));
    let body = rewrite::rewritten_body(&chat.request, &plan.view);
    body.ok().flatten().unwrap_or_else(|| chat.request.body.original())
}

/// Returns the inputs of a plan whose refusal nothing mends.
fn for_last_send(chat: &Chat<'_>, inputs: &PlanInputs) -> PlanInputs {
    PlanInputs {
        prior_records: thinking::for_last_send(chat, &inputs.prior_records),
        ..inputs.clone()
    }
}

/// Whether a reply with this status refuses the rewritten body, so that the original is counted instead.
/// Other failures concern the endpoint, the caller or the load.
pub(crate) fn refuses_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
}
