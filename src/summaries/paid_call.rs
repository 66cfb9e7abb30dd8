//! Lifecycle of one call that was sent: its cost and its trace span.

use http::StatusCode;

use crate::costs::cost_meter::{CostMeter, MeteredCall};
use crate::error::Fault;
use crate::traces::{CallSpan, NO_ANSWER};
use longhaul_core::dialect::usage::Usage;

/// A call in progress. A call dropped before it finishes was cut short, so its cost is unknown.
pub(super) struct PaidCall<'t> {
    metered: MeteredCall<'t>,
    /// `None` if the call is not traced.
    span: Option<CallSpan>,
}

impl<'t> PaidCall<'t> {
    pub(super) fn new(meter: &'t CostMeter, attempt: Option<CallSpan>) -> Self {
        Self {
            metered: meter.start_call(),
            span: attempt,
        }
    }

    /// Finishes a call that did not reach the upstream.
    pub(super) fn finish_unreachable(mut self, why: Fault) {
        self.record_fault(why);
        self.metered.finish_free();
    }

    /// Records the status of the reply's head.
    pub(super) fn record_status(&mut self, status: StatusCode) {
        if let Some(attempt) = &mut self.span {
            attempt.record_status(status);
        }
        if status.is_success() {
            self.metered.mark_accepted();
        }
    }

    /// Finishes a call that was refused, by its status or by an error in the body of a successful
    /// reply.
    pub(super) fn finish_refused(mut self) {
        if let Some(attempt) = self.span.as_mut().filter(|_| self.metered.is_accepted()) {
            attempt.fail(NO_ANSWER);
        }
        self.metered.finish_free();
    }

    /// Finishes a call that was answered, with the usage that the upstream reported.
    pub(super) fn finish_answered(mut self, usage: Option<&Usage>) {
        if let Some(attempt) = &mut self.span {
            attempt.finish_with_usage(usage);
        }
        self.metered.finish_answered(usage);
    }

    /// Finishes a call whose reply broke off. The upstream may charge for it all the same.
    pub(super) fn finish_broken(mut self) {
        self.record_fault(Fault::UpstreamBroke);
    }

    fn record_fault(&mut self, why: Fault) {
        if let Some(attempt) = &mut self.span {
            attempt.fail(why.code());
        }
    }
}
