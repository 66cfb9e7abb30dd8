//! A collector: an HTTP server that stores its exports and decodes their spans.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::protobuf::{Span, spans};
use crate::time_limit::bounded;

/// A running collector; stops when dropped.
pub(super) struct Collector {
    address: SocketAddr,
    state: Arc<State>,
    _serving: JoinSet<()>,
}

struct State {
    status: Mutex<StatusCode>,
    /// The exports received, in order.
    posted: watch::Sender<Vec<Posted>>,
}

/// An export: the headers and the body of a POST.
#[derive(Clone)]
pub(super) struct Posted {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            status: Mutex::new(StatusCode::OK),
            posted: watch::Sender::default(),
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&state)));
        Self { address, state, _serving: serving }
    }

    /// Returns the endpoint in the form of OpenTelemetry's environment variables.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers all later exports with `status`.
    pub(super) fn answer(&self, status: StatusCode) {
        *self.state.status.lock().unwrap() = status;
    }

    /// Returns the exports received so far.
    pub(super) fn posted(&self) -> Vec<Posted> {
        self.state.posted.borrow().clone()
    }

    /// Returns all spans received so far.
    pub(super) fn spans(&self) -> Vec<Span> {
        of(&self.posted())
    }

    /// Waits until `times` exports have arrived.
    pub(super) async fn is_asked(&self, times: usize) {
        let mut posted = self.state.posted.subscribe();
        bounded(posted.wait_for(|posted| posted.len() >= times)).await.unwrap();
    }

    /// Waits until the spans satisfy `enough`, then returns them.
    pub(super) async fn wait_for(&self, enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let mut posted = self.state.posted.subscribe();
        let posted = bounded(posted.wait_for(|posted| enough(&of(posted)))).await;
        of(&posted.unwrap())
    }

    /// Waits for `count` server spans, then returns all spans.
    pub(super) async fn requests(&self, count: usize) -> Vec<Span> {
        let enough = |spans: &[Span]| spans.iter().filter(|span| span.is_of_server()).count();
        self.wait_for(|spans| enough(spans) >= count).await
    }
}

fn of(posted: &[Posted]) -> Vec<Span> {
    posted.iter().flat_map(|posted| spans(&posted.body)).collect()
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(|request| take(&state, request));
            // An exporter may disconnect at any time.
            _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn take(
    state: &State,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut answer = Response::new(Full::default());
    if (head.method, head.uri.path()) != (Method::POST, "/v1/traces") {
        *answer.status_mut() = StatusCode::NOT_FOUND;
        return Ok(answer);
    }
    let headers = head.headers;
    state.posted.send_modify(|posted| posted.push(Posted { headers, body }));
    *answer.status_mut() = *state.status.lock().unwrap();
    Ok(answer)
}
