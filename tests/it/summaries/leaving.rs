//! Clients that leave while a summary is written.

use std::net::SocketAddr;

use longhaul::demo::{Ended, Kind, Model, ModelOptions, Seen, SummaryConduct};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::bound::bounded;
use crate::caller::{Caller, talk};
use crate::harness::Proxy;
use crate::program::Program;
use crate::recovery::scripted;

/// Past it, in bytes of a body, the slow upstream refuses.
const HOLDS: usize = 130_000;
const OVERFLOW: &str = r#"{"error":{"message":"This model's maximum context length is 32768 tokens. However, your messages resulted in 44000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
const ANSWER: &str = r###"{"choices":[{"index":0,"message":{"role":"assistant","content":"## Goal\ngo on\n\n## Next Steps\n1. go on"},"finish_reason":"stop"}]}"###;

/// An upstream that writes a summary when it is let, not before.
pub(super) struct Slow {
    pub(super) address: SocketAddr,
    /// How many summaries were asked for, and how many of those that asked have left.
    pub(super) told: watch::Receiver<(usize, usize)>,
    pub(super) finish: watch::Sender<bool>,
}

impl Slow {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, told) = watch::channel((0, 0));
        let (finish, finished) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, tell.clone(), finished.clone()));
            }
        });
        Self {
            address,
            told,
            finish,
        }
    }

    /// Waits until so many were asked for, and so many have left.
    pub(super) async fn told(&mut self, asked: usize, left: usize) {
        let told = self.told.wait_for(|told| *told == (asked, left));
        bounded(told).await.unwrap();
    }
}

async fn serve(
    mut socket: TcpStream,
    tell: watch::Sender<(usize, usize)>,
    mut finished: watch::Receiver<bool>,
) {
    while let Some(body) = scripted::body(&mut socket).await {
        let text = String::from_utf8_lossy(&body);
        let (status, reply) = if text.contains("<transcript-") {
            tell.send_modify(|told| told.0 += 1);
            let mut more = [0];
            tokio::select! {
                _ = finished.wait_for(|finished| *finished) => {}
                read = socket.read(&mut more) => {
                    assert_eq!(read.unwrap_or_default(), 0, "nothing follows a request");
                    tell.send_modify(|told| told.1 += 1);
                    return;
                }
            }
            (200, ANSWER)
        } else if body.len() > HOLDS {
            (400, OVERFLOW)
        } else {
            (200, ANSWER)
        };
        let length = reply.len();
        let reply = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{reply}"
        );
        if socket.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A conversation that the slow upstream refuses.
fn too_long() -> Vec<u8> {
    talk(20, 2_000)
}

/// The same some turns earlier.
fn before() -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&too_long()).unwrap();
    body["messages"].as_array_mut().unwrap().truncate(22);
    body.to_string().into()
}

#[tokio::test]
async fn a_client_that_gives_up_too_soon_has_its_summary_for_one_more_call() {
    let mut upstream = Slow::start().await;
    let proxy = Proxy::start(&format!("http://{}/v1", upstream.address), &[]).await;
    let caller = Caller::of(proxy.address);
    // One that was never met gets a digest, which nobody waits for.
    assert_eq!(caller.ask(before()).await.status, 200);
    // Its patience ends: the first time that looks like a cancel, and the job ends with it.
    tokio::select! {
        _ = caller.ask(too_long()) => panic!("no summary was made"),
        () = upstream.told(1, 0) => {}
    }
    upstream.told(1, 1).await;
    // Asked again, the job outlives whoever asked.
    let caller = Caller::of(proxy.address);
    tokio::select! {
        _ = caller.ask(too_long()) => panic!("no summary was made"),
        () = upstream.told(2, 1) => {}
    }
    drop(caller);
    upstream.finish.send(true).unwrap();
    let arrived = Caller::of(proxy.address).ask(too_long()).await;
    assert_eq!((arrived.status, arrived.action()), (200, "summary"));
    assert_eq!(*upstream.told.borrow(), (2, 1), "one more call");
}

#[tokio::test]
async fn a_client_that_leaves_is_no_warning() {
    let options = ModelOptions {
        summary: SummaryConduct::Hangs,
        ..ModelOptions::of_window(32_768)
    };
    let model = Model::start(options).await.unwrap();
    let program = Program::told(&model.url(), &[]);
    let caller = Caller::of(program.address());
    let summary = |seen: &Seen| seen.kind == Kind::Summary;
    let asked = |seen: &[Seen]| seen.iter().any(summary);
    tokio::select! {
        _ = caller.ask(too_long()) => panic!("no summary was made"),
        _ = bounded(model.wait_for(asked)) => {}
    }
    drop(caller);
    let abandoned = |seen: &Seen| summary(seen) && seen.ended == Ended::Abandoned;
    bounded(model.wait_for(|seen| seen.iter().any(abandoned))).await;
    let log = program.ended();
    assert!(log.contains("compacting"), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}
