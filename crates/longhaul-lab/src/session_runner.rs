//! Sends the requests of a session to a server on loopback, one after another, as an agent does.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method};
use tokio::time::{sleep, timeout};

use longhaul_console::loopback_client::{LoopbackClient, LoopbackReply};
use longhaul_mock_model::{Model, ReplyCompletion, RequestKind, SeenRequest};

/// The number of times the agent yields to other tasks between two requests. All tasks share one
/// thread, so this many steps run however slow the machine is. A background job needs fewer steps
/// to reach the model.
const PAUSES: usize = 12;
/// The duration of each pause: the timer's smallest step.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum bytes of a reply.
const REPLY_BYTES: usize = 16 << 20;

/// Work that may continue after a reply.
pub(crate) trait Background {
    /// Whether a call for a summary is in flight.
    fn is_busy(&self) -> bool;

    /// Waits until no call for a summary is in flight.
    async fn idle(&self);
}

impl Background for Model {
    fn is_busy(&self) -> bool {
        has_pending_summary(&self.seen())
    }

    async fn idle(&self) {
        self.wait_for(|seen| !has_pending_summary(seen)).await;
    }
}

fn has_pending_summary(seen: &[SeenRequest]) -> bool {
    let mut summaries = seen.iter().filter(|seen| seen.kind == RequestKind::Summary);
    summaries.any(|seen| seen.ended == ReplyCompletion::Pending)
}

/// An agent that sends its requests to one server.
pub(crate) struct SessionRunner {
    client: LoopbackClient,
    path: String,
    /// Maximum time for a reply, and for the background after it.
    patience: Duration,
}

impl SessionRunner {
    /// Creates an agent of the API at `path`, which the base URL of `server` precedes.
    pub(crate) fn new(server: SocketAddr, path: &str, patience: Duration) -> Self {
        Self { client: LoopbackClient::new(server), path: format!("/v1{path}"), patience }
    }

    /// Sends a request and reads its reply. Then waits until the work of `background` has finished, so that
    /// a session has the same outcome on every machine. Fails if no whole reply arrived; the text says
    /// why.
    pub(crate) async fn send(
        &self,
        body: Bytes,
        background: Option<&impl Background>,
    ) -> Result<LoopbackReply, String> {
        let key = [(AUTHORIZATION, HeaderValue::from_static("Bearer replay"))];
        let limits = (REPLY_BYTES, self.patience);
        let reply = self.client.send(Method::POST, &self.path, &key, body, limits).await;
        if let Some(background) = background {
            // Slower work continues alongside the following request, as it would for an agent.
            _ = timeout(self.patience, settle(background)).await;
        }
        reply
    }
}

async fn settle(background: &impl Background) {
    yield_to_tasks().await;
    while background.is_busy() {
        background.idle().await;
        yield_to_tasks().await;
    }
}

/// Lets the other tasks on this thread run until each waits for something.
async fn yield_to_tasks() {
    for _ in 0..PAUSES {
        sleep(PAUSE).await;
    }
}
