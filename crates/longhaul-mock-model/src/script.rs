//! A scripted response body: pieces, pauses, and failures of a reply.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::record::ReplyGuard;

/// A step of a script.
#[derive(Debug)]
pub(crate) enum ScriptStep {
    /// Sends nothing more and never ends.
    Hang,
    /// Breaks the connection.
    Reset,
    /// Sends a piece of the body.
    Send(Bytes),
    /// Pauses.
    Wait(Duration),
}

/// The body of a reply.
#[derive(Debug)]
pub(crate) struct ScriptedBody {
    steps: VecDeque<ScriptStep>,
    pause: Option<Pin<Box<Sleep>>>,
    /// Whether the pieces before a break have been written to the wire.
    flushed: bool,
    ticket: ReplyGuard,
}

impl ScriptedBody {
    pub(crate) fn new(steps: impl IntoIterator<Item = ScriptStep>, ticket: ReplyGuard) -> Self {
        let mut script =
            Self { steps: steps.into_iter().collect(), pause: None, flushed: false, ticket };
        script.mark_if_finished();
        script
    }

    fn mark_if_finished(&mut self) {
        if self.steps.is_empty() {
            self.ticket.answered();
        }
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            let Some(step) = self.steps.pop_front() else {
                return Poll::Ready(None);
            };
            match step {
                ScriptStep::Hang => {
                    self.steps.push_front(ScriptStep::Hang);
                    return Poll::Pending;
                }
                ScriptStep::Reset if !self.flushed => {
                    // The server flushes its buffer when the body is pending.
                    self.flushed = true;
                    self.steps.push_front(ScriptStep::Reset);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                ScriptStep::Reset => {
                    self.mark_if_finished();
                    let broken = io::Error::from(io::ErrorKind::ConnectionReset);
                    return Poll::Ready(Some(Err(broken)));
                }
                ScriptStep::Send(piece) => {
                    self.mark_if_finished();
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                ScriptStep::Wait(pause) => self.pause = Some(Box::pin(sleep(pause))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty() && self.pause.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let whole = self.steps.iter().try_fold(0, |sum, step| match step {
            ScriptStep::Send(piece) => Some(sum + piece.len() as u64),
            ScriptStep::Hang | ScriptStep::Reset | ScriptStep::Wait(_) => None,
        });
        whole.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
