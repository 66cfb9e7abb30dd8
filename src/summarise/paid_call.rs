//! A call that was sent, to its end: what is paid for it, and what is recorded of it.

use http::StatusCode;

use super::till::{CostMeter, MeteredCall};
use crate::error::Fault;
use crate::rewrite::usage::Usage;
use crate::traces::{CallSpan, NO_ANSWER};

/// A call under way. Dropped, it was cut short: what it costs is not known.
pub(super) struct PaidCall<'t> {
    metered: MeteredCall<'t>,
    /// None where it is not recorded.
    span: Option<CallSpan>,
}

impl<'t> PaidCall<'t> {
    pub(super) fn new(till: &'t CostMeter, attempt: Option<CallSpan>) -> Self {
        Self {
            metered: till.start_call(),
            span: attempt,
        }
    }

    /// It reached nobody.
    pub(super) fn finish_unreachable(mut self, why: Fault) {
        self.record_fault(why);
        self.metered.finish_free();
    }

    /// The head of the reply is here.
    pub(super) fn record_status(&mut self, status: StatusCode) {
        if let Some(attempt) = &mut self.span {
            attempt.record_status(status);
        }
        if status.is_success() {
            self.metered.mark_accepted();
        }
    }

    /// It was refused, as its status says, or what came under the status of an answer.
    pub(super) fn finish_refused(mut self) {
        if let Some(attempt) = self.span.as_mut().filter(|_| self.metered.is_accepted()) {
            attempt.fail(NO_ANSWER);
        }
        self.metered.finish_free();
    }

    /// It was answered, and counted so.
    pub(super) fn finish_answered(mut self, usage: Option<&Usage>) {
        if let Some(attempt) = &mut self.span {
            attempt.finish_with_usage(usage);
        }
        self.metered.finish_answered(usage);
    }

    /// Its answer broke off, and may be charged all the same.
    pub(super) fn finish_broken(mut self) {
        self.record_fault(Fault::UpstreamBroke);
    }

    fn record_fault(&mut self, why: Fault) {
        if let Some(attempt) = &mut self.span {
            attempt.fail(why.code());
        }
    }
}
