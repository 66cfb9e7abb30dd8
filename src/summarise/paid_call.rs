//! A call that was sent, to its end: what is paid for it, and what is recorded of it.

use http::StatusCode;

use super::till::{Call, Till};
use crate::error::Fault;
use crate::rewrite::usage::Usage;
use crate::traces::{CallSpan, NO_ANSWER};

/// A call under way. Dropped, it was cut short: what it costs is not known.
pub(super) struct PaidCall<'t> {
    call: Call<'t>,
    /// None where it is not recorded.
    attempt: Option<CallSpan>,
}

impl<'t> PaidCall<'t> {
    pub(super) fn new(till: &'t Till, attempt: Option<CallSpan>) -> Self {
        Self {
            call: till.call(),
            attempt,
        }
    }

    /// It reached nobody.
    pub(super) fn unreachable(mut self, why: Fault) {
        self.fail(why);
        self.call.free();
    }

    /// The head of the reply is here.
    pub(super) fn replied(&mut self, status: StatusCode) {
        if let Some(attempt) = &mut self.attempt {
            attempt.replied(status);
        }
        if status.is_success() {
            self.call.taken();
        }
    }

    /// It was refused, as its status says, or what came under the status of an answer.
    pub(super) fn refused(mut self) {
        if let Some(attempt) = self.attempt.as_mut().filter(|_| self.call.is_taken()) {
            attempt.failed(NO_ANSWER);
        }
        self.call.free();
    }

    /// It was answered, and counted so.
    pub(super) fn answered(mut self, usage: Option<&Usage>) {
        if let Some(attempt) = &mut self.attempt {
            attempt.answered(usage);
        }
        self.call.answered(usage);
    }

    /// Its answer broke off, and may be charged all the same.
    pub(super) fn broke_off(mut self) {
        self.fail(Fault::UpstreamBroke);
    }

    fn fail(&mut self, why: Fault) {
        if let Some(attempt) = &mut self.attempt {
            attempt.failed(why.code());
        }
    }
}
