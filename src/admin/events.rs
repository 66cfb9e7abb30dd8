//! Changes of the dashboard as server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout};

use crate::admin::Overview;

/// Maximum viewers at once. Each holds a connection and, briefly, one change.
pub(crate) const MAX_VIEWERS: usize = 16;
/// Minimum time between two changes. All changes in between are sent as one.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);
/// Time without a change after which a comment shows that the connection lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Body of an event stream. Dropping it ends the stream.
pub(crate) struct EventStream {
    changes: mpsc::Receiver<Bytes>,
    _viewer: OwnedSemaphorePermit,
}

impl EventStream {
    /// Starts a stream for one viewer: first the whole list, then what changes.
    pub(super) fn start(overview: &Arc<Overview>, viewer: OwnedSemaphorePermit) -> Self {
        let (sender, changes) = mpsc::channel(1);
        tokio::spawn(send_changes(Arc::clone(overview), sender));
        Self { changes, _viewer: viewer }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.changes.poll_recv(context);
        next.map(|change| change.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Sends changes until the viewer leaves.
async fn send_changes(overview: Arc<Overview>, sender: mpsc::Sender<Bytes>) {
    let mut revision = overview.state.recent.subscribe();
    let mut sent = 0;
    let mut is_first = true;
    loop {
        revision.borrow_and_update();
        let (now, page) = overview.changes_since(sent);
        if sender.send(event(&page, is_first)).await.is_err() {
            return;
        }
        sent = now;
        is_first = false;
        sleep(CHANGE_INTERVAL).await;
        loop {
            let changed = tokio::select! {
                changed = timeout(KEEP_ALIVE, revision.changed()) => changed,
                () = sender.closed() => return,
            };
            match changed {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return,
                Err(_) => {
                    if sender.send(Bytes::from_static(b":\n\n")).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Renders one event. The data is JSON in one line.
fn event(page: &[u8], is_first: bool) -> Bytes {
    let mut event = BytesMut::with_capacity(page.len() + 64);
    if is_first {
        event.put_slice(b"event: all\n");
    }
    event.put_slice(b"data: ");
    event.put_slice(page);
    event.put_slice(b"\n\n");
    event.freeze()
}
