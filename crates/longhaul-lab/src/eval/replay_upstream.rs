//! The upstream of a replayed session, on loopback: a model in this process answers the chats, and calls
//! for summaries are paid for.
//!
//! The replay requests whole replies, and longhaul streams every summary. So a call for a stream is a
//! call for a summary.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::RwLock;
use tokio::task::JoinSet;

use super::paid_client::{CallOutcome, PaidClient};
use crate::error::LabError;
use crate::evaluation::step_request::asks_for_stream;
use crate::session_runner::Background;
use longhaul_console::loopback_client::{LoopbackClient, LoopbackReply};
use longhaul_core::dialect::Dialect;
use longhaul_mock_model::serve_connections;

/// Maximum bytes of a request: the proxy's default limit for one body.
const BODY_BYTES: usize = 256 << 20;
/// Time limit for the model in this process.
const MODEL_TIMEOUT: Duration = Duration::from_mins(1);

/// A running upstream, stopped on drop.
pub(super) struct ReplayUpstream {
    address: SocketAddr,
    state: Arc<ReplayUpstreamState>,
    _accepting: JoinSet<()>,
}

/// The state that all connections share.
struct ReplayUpstreamState {
    /// The model in this process.
    model: LoopbackClient,
    /// Pays for summaries. Without it, the model in this process writes them.
    caller: Option<Arc<PaidClient>>,
    /// The newest chat as longhaul forwarded it.
    forwarded: Mutex<Bytes>,
    /// Each call for a summary in flight holds a read lock.
    pending: RwLock<()>,
    stopped: Mutex<Option<Stopped>>,
}

/// Reason why the replay of a session cannot go on.
pub(super) enum Stopped {
    /// The budget allows no summary.
    Budget,
    LabError(LabError),
}

impl ReplayUpstream {
    /// Starts an upstream in front of the model at `model`. Fails if loopback cannot be used.
    pub(super) async fn start(
        model: SocketAddr,
        caller: Option<Arc<PaidClient>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(ReplayUpstreamState {
            model: LoopbackClient::new(model),
            caller,
            forwarded: Mutex::default(),
            pending: RwLock::default(),
            stopped: Mutex::new(None),
        });
        let shared = Arc::clone(&state);
        let mut accepting = JoinSet::new();
        accepting
            .spawn(serve_connections(listener, move |request| serve(Arc::clone(&shared), request)));
        Ok(Self { address, state, _accepting: accepting })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the newest chat as longhaul forwarded it.
    pub(super) fn forwarded(&self) -> Bytes {
        self.state.forwarded.lock().clone()
    }

    /// Returns the reason why the replay cannot go on, if there is one.
    pub(super) fn take_stopped(&self) -> Option<Stopped> {
        self.state.stopped.lock().take()
    }
}

impl Background for ReplayUpstream {
    fn is_busy(&self) -> bool {
        self.state.pending.try_write().is_err()
    }

    async fn idle(&self) {
        drop(self.state.pending.write().await);
    }
}

async fn serve(
    state: Arc<ReplayUpstreamState>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES).collect().await;
    let body = body.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path().to_owned();
    let dialect = Dialect::of_path(&path);
    let wants_summary = str::from_utf8(&body).is_ok_and(asks_for_stream);
    let reply = if let Some(dialect) = dialect.filter(|_| wants_summary) {
        // The proxy gives up after its own time limit. The paid answer is recorded all the same.
        let (state, path) = (Arc::clone(&state), path.clone());
        let call = tokio::spawn(async move {
            let _pending = state.pending.read().await;
            state.summary(dialect, &path, body).await
        });
        call.await.map_err(io::Error::other)??
    } else {
        if dialect.is_some() {
            *state.forwarded.lock() = body.clone();
        }
        state.ask_model(&path, body).await?
    };
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = reply.status;
    if let Some(kind) = reply.headers.get(CONTENT_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    Ok(response)
}

impl ReplayUpstreamState {
    async fn ask_model(&self, path: &str, body: Bytes) -> io::Result<LoopbackReply> {
        let reply =
            self.model.send(Method::POST, path, &[], body, (BODY_BYTES, MODEL_TIMEOUT)).await;
        reply.map_err(io::Error::other)
    }

    async fn summary(
        &self,
        dialect: Dialect,
        path: &str,
        body: Bytes,
    ) -> io::Result<LoopbackReply> {
        let Some(caller) = &self.caller else {
            return self.ask_model(path, body).await;
        };
        let failed =
            |status| LoopbackReply { status, headers: http::HeaderMap::new(), body: Bytes::new() };
        match caller.summary(dialect, &body).await {
            Ok(CallOutcome::Recorded(entry)) => {
                let kind = if entry.is_stream { "text/event-stream" } else { "application/json" };
                let mut reply = failed(StatusCode::OK);
                reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                reply.body = entry.reply.into();
                Ok(reply)
            }
            Ok(CallOutcome::Failed(_)) => {
                caller.failed_summaries.fetch_add(1, Ordering::Relaxed);
                Ok(failed(StatusCode::BAD_GATEWAY))
            }
            Ok(CallOutcome::NotSent) if caller.is_spending() => {
                self.stop(Stopped::Budget);
                Ok(failed(StatusCode::SERVICE_UNAVAILABLE))
            }
            Ok(CallOutcome::NotSent) => self.ask_model(path, body).await,
            Err(problem) => {
                self.stop(Stopped::LabError(problem));
                Ok(failed(StatusCode::SERVICE_UNAVAILABLE))
            }
        }
    }

    fn stop(&self, why: Stopped) {
        self.stopped.lock().get_or_insert(why);
    }
}
