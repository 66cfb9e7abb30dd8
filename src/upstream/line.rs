//! The switch by which a request ends the connection that it is on.

use std::sync::Arc;
use std::task::{Context, Waker};

use crate::lock::Mutex;

/// Ends a connection from outside of the task that drives it. hyper alone first writes all that it
/// holds of a request, for as long as the upstream lets it wait.
#[derive(Clone, Default)]
pub(super) struct Line(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_cut: bool,
    /// Who wrote last.
    writer: Option<Waker>,
}

impl Line {
    /// Nothing more is written to it.
    pub(super) fn cut(&self) {
        let mut state = self.0.lock();
        state.is_cut = true;
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Whether it was cut. Who asks is woken when it is.
    pub(super) fn is_cut(&self, cx: &Context<'_>) -> bool {
        let mut state = self.0.lock();
        let waker = cx.waker();
        if !(state.is_cut || state.writer.as_ref().is_some_and(|w| w.will_wake(waker))) {
            state.writer = Some(waker.clone());
        }
        state.is_cut
    }
}
