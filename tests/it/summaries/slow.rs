//! An upstream whose summaries take as long as a test needs.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::recovery::scripted;
use crate::time_limit::bounded;

/// Body size in bytes beyond which the slow upstream refuses.
const HOLDS: usize = 130_000;
const OVERFLOW: &str = r#"{"error":{"message":"This model's maximum context length is 32768 tokens. However, your messages resulted in 44000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
/// Body member with the model for which the upstream reports overload.
pub(super) const BUSY: &str = r#""model":"busy""#;
const THROTTLED: &str = r#"{"error":{"message":"Rate limit reached","code":429}}"#;
const ANSWER: &str = r###"{"choices":[{"index":0,"message":{"role":"assistant","content":"## Goal\ngo on\n\n## Next Steps\n1. go on"},"finish_reason":"stop"}]}"###;

/// An upstream that completes a summary only on command, and reports overload for chats with
/// [`BUSY`].
pub(super) struct Slow {
    address: SocketAddr,
    /// Numbers of summary calls received, and of those whose client has disconnected.
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
        Self { address, told, finish }
    }

    /// Returns the base URL.
    pub(super) fn base(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Waits for `asked` summary calls, `left` of them disconnected.
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
        } else if text.contains(BUSY) {
            (429, THROTTLED)
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
