//! The signal by which a request aborts its connection.

use std::sync::Arc;
use std::task::{Context, Waker};

use parking_lot::Mutex;

/// Aborts a connection from outside the task that drives it. Without the abort, hyper first writes
/// all that it has buffered of a request, for as long as the upstream stalls.
#[derive(Clone, Default)]
pub(super) struct AbortSignal(Arc<Mutex<AbortState>>);

#[derive(Default)]
struct AbortState {
    is_aborted: bool,
    /// Waker of the last task that wrote.
    writer_waker: Option<Waker>,
}

impl AbortSignal {
    /// Makes all further writes fail.
    pub(super) fn abort(&self) {
        let mut state = self.0.lock();
        state.is_aborted = true;
        let writer = state.writer_waker.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Whether the connection was aborted. Otherwise, the task of `cx` is woken on abort.
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
