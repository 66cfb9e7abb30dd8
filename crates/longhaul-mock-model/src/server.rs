//! The strict model as an HTTP server on loopback.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::cloud::CloudRequest;
use crate::judged_request::JudgedRequest;
use crate::model_state::ModelState;
use crate::options::ModelOptions;
use crate::record::{RequestKind, SeenRequest};
use crate::request::{Api, Caller};
use crate::script::ScriptedBody;

/// The maximum size of a request body.
const BODY_BYTES: usize = 256 << 20;

/// A running model, stopped on drop.
#[derive(Debug)]
pub struct Model {
    addr: SocketAddr,
    state: Arc<ModelState>,
    accepting: JoinHandle<()>,
}

impl Model {
    /// Starts a model on a free port of loopback.
    pub async fn start(options: ModelOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let state = Arc::new(ModelState::new(options));
        let shared = Arc::clone(&state);
        let serve = move |request| serve(Arc::clone(&shared), request);
        let accepting = tokio::spawn(serve_connections(listener, serve));
        Ok(Self { addr, state, accepting })
    }

    /// Returns the listener's address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the base URL for agents.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// Returns every request so far, in the order they were read.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.state.log().all()
    }

    /// Waits until the requests so far satisfy `enough` and returns them.
    pub async fn wait_for(&self, enough: impl Fn(&[SeenRequest]) -> bool) -> Vec<SeenRequest> {
        self.state.log().wait_for(enough).await
    }

    /// Changes the options from the next request on.
    pub fn change(&self, change: impl FnOnce(&mut ModelOptions)) {
        self.state.change(change);
    }

    /// Holds the replies to summary requests, or releases them.
    pub fn hold_summaries(&self, is_held: bool) {
        self.state.hold_summaries(is_held);
    }

    /// Stops the model. On return its port is closed; its connections break.
    pub async fn stop(mut self) {
        self.accepting.abort();
        // An aborted task returns a cancellation error.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves each connection of `listener` with `serve`. Never returns; dropping the future drops every
/// connection.
pub async fn serve_connections<S, R, B>(listener: TcpListener, serve: S)
where
    S: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = io::Result<Response<B>>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            stream = listener.accept() => {
                let Ok((stream, _)) = stream else { continue };
                let serve = service_fn(serve.clone());
                connections.spawn(async move {
                    let connection = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .serve_connection(TokioIo::new(stream), serve);
                    // A broken connection is caused by the client or by a script.
                    let _ = connection.await;
                });
            }
        }
    }
}

async fn serve(
    state: Arc<ModelState>,
    request: Request<Incoming>,
) -> io::Result<Response<ScriptedBody>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES).collect().await.map_err(io::Error::other)?;
    let body = body.to_bytes();
    let path = head.uri.path();
    let cloud = CloudRequest::parse(path).filter(|_| head.method == Method::POST);
    let turn = match Api::of_path(path).filter(|_| head.method == Method::POST) {
        Some(api) => state.judge(api, &body, Caller::of(&head.headers)),
        None if path.ends_with("/v1/messages/count_tokens") => {
            state.count(&body, Caller::of(&head.headers))
        }
        #[cfg(feature = "validity")]
        None if path.ends_with("/responses/compact") => {
            let judged = state.compact(&body, Caller::of(&head.headers));
            judged.unwrap_or_else(|| JudgedRequest::not_a_chat(path))
        }
        None => cloud.map_or_else(
            || JudgedRequest::not_a_chat(path),
            |cloud| cloud.judge(&state, &body, &head.headers),
        ),
    };
    let target = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let seen =
        SeenRequest { target: target.to_owned(), headers: head.headers, body, ..turn.seen.clone() };
    let is_summary = seen.kind == RequestKind::Summary;
    let ticket = state.log().record(seen);
    if is_summary {
        state.released().await;
    }
    let Some(sent) = turn.reply.into_wire() else {
        // The guard is held to record when the client gives up.
        let _ticket = ticket;
        return std::future::pending().await;
    };
    let mut response = Response::new(ScriptedBody::new(sent.steps, ticket));
    *response.status_mut() = sent.status;
    if let Some(kind) = sent.content_type {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    Ok(response)
}
