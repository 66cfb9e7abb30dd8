//! The switch by which a request ends the connection that it is on.

use std::sync::Arc;
use std::task::{Context, Waker};

use crate::lock::Mutex;

/// Ends a connection from outside of the task that drives it. hyper alone first writes all that it
/// holds of a request, for as long as the upstream lets it wait.
#[derive(Clone, Default)]
pub(super) struct AbortSignal(Arc<Mutex<AbortState>>);

#[derive(Default)]
struct AbortState {
    is_aborted: bool,
    /// Who wrote last.
    writer_waker: Option<Waker>,
}

impl AbortSignal {
    /// Nothing more is written to it.
    pub(super) fn abort(&self) {
        let mut state = self.0.lock();
        state.is_aborted = true;
        let writer = state.writer_waker.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Whether it was cut. Who asks is woken when it is.
    pub(super) fn is_aborted(&self, cx: &Context<'_>) -> bool {
        let mut state = self.0.lock();
        let waker = cx.waker();
        if !(state.is_aborted
            || state
                .writer_waker
                .as_ref()
                .is_some_and(|w| w.will_wake(waker)))
        {
            state.writer_waker = Some(waker.clone());
        }
        state.is_aborted
    }
}
