//! An upstream that reads each request to its end and answers at once.
//!
//! `?events=N&pause_us=P` asks for a stream of N events, P microseconds apart. Without it, the
//! reply is a small JSON object.

use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use longhaul_bench::{Failure, UPSTREAM, block_on};
use std::time::Duration;
use tokio::net::TcpListener;

const REPLY: &str = r#"{"id":"chatcmpl-0","object":"chat.completion","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"The tests pass now."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":6,"total_tokens":7}}"#;
const RESPONSE: &str = r#"{"id":"resp_0","object":"response","created_at":1700000000,"status":"completed","error":null,"model":"gpt-5","output":[{"type":"message","id":"msg_0","role":"assistant","status":"completed","content":[{"type":"output_text","text":"The tests pass now.","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":6,"total_tokens":7}}"#;
const MESSAGE: &str = r#"{"id":"msg_0","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"The tests pass now."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":6}}"#;
const EVENT: &str = concat!(
    r#"data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":1700000000,"#,
    r#""model":"gpt-4o","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}"#,
    "\n\n"
);
const LAST: &str = "data: [DONE]\n\n";

type Reply = Response<Either<Full<Bytes>, Channel<Bytes>>>;

fn main() -> Result<(), Failure> {
    block_on(async {
        let listener = TcpListener::bind(UPSTREAM).await?;
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::task::spawn_local(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service_fn(answer)),
            );
        }
    })?
}

async fn answer(request: Request<Incoming>) -> Result<Reply, hyper::Error> {
    let asked = |name: &str| {
        let query = request.uri().query().unwrap_or_default();
        query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            (key == name).then(|| value.parse().ok())?
        })
    };
    let whole = match request.uri().path() {
        "/v1/messages" => MESSAGE,
        "/v1/responses" => RESPONSE,
        _ => REPLY,
    };
    let (events, pause) = (asked("events"), asked("pause_us").unwrap_or(0));
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    let (kind, body) = match events {
        Some(events) => ("text/event-stream", Either::Right(stream(events, pause))),
        None => ("application/json", Either::Left(Full::from(whole))),
    };
    let mut reply = Response::new(body);
    reply.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(kind));
    Ok(reply)
}

fn stream(events: u64, pause_us: u64) -> Channel<Bytes> {
    let (mut sender, body) = Channel::new(1);
    tokio::task::spawn_local(async move {
        for at in 0..events {
            if at > 0 && pause_us > 0 {
                tokio::time::sleep(Duration::from_micros(pause_us)).await;
            }
            if sender.send_data(Bytes::from_static(EVENT.as_bytes())).await.is_err() {
                return;
            }
            // Sends each event separately, like a model's tokens.
            tokio::task::yield_now().await;
        }
        // A client that has disconnected does not need the last event.
        _ = sender.send_data(Bytes::from_static(LAST.as_bytes())).await;
    });
    body
}
