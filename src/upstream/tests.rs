//! Connections to upstreams that stall or break.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{advance, pause, resume, timeout};

use super::*;
use crate::config::Config;
use crate::limits::LINGER;

/// Generous timeout that only bounds a hang.
const HANG: Duration = Duration::from_secs(20);
/// More bytes than the sockets between two ends buffer while the peer does not read.
const LONG: usize = 16 << 20;

/// Bytes that signal when their last owner drops them.
struct Told {
    bytes: Vec<u8>,
    _gone: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Told {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An upstream that reads only the heads of requests.
struct Standing {
    listener: TcpListener,
    upstream: Upstream,
}

impl Standing {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        let upstream = Upstream::new(&config.upstream, None).unwrap();
        Self { listener, upstream }
    }

    /// A request with a body of `length` bytes, and a receiver that is notified once the body is
    /// dropped.
    fn request(&self, length: usize) -> (Request<RequestBody>, oneshot::Receiver<()>) {
        let (gone, told) = oneshot::channel();
        let bytes = vec![b'x'; length];
        let body = Bytes::from_owner(Told { bytes, _gone: gone });
        let address = self.listener.local_addr().unwrap();
        let request = Request::post(format!("http://{address}/v1/chat/completions"));
        let request = request.header("content-length", length);
        let body = RequestBody::from_bytes(body, &Arc::default());
        (request.body(body).unwrap(), told)
    }

    /// Accepts the next connection and reads a request head from it.
    async fn asked(&self) -> TcpStream {
        let (mut socket, _) = self.listener.accept().await.unwrap();
        head(&mut socket).await;
        socket
    }
}

/// Waits until the body has been dropped.
async fn is_gone(told: oneshot::Receiver<()>) {
    let gone = timeout(HANG, told).await.expect("nobody holds it");
    gone.unwrap_err();
}

/// Reads the head of a request byte by byte, and nothing after it.
async fn head(socket: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
}

fn refusal(fields: &str) -> String {
    format!("HTTP/1.1 413 Payload Too Large\r\n{fields}Content-Length: 4\r\n\r\nlong")
}

#[tokio::test]
async fn abandoned_request_stops_sending_to_a_stalled_upstream() {
    let standing = Standing::new().await;
    let (request, told) = standing.request(LONG);
    let sending = standing.upstream.send(request);
    let mut socket = tokio::select! {
        socket = standing.asked() => socket,
        _ = sending => panic!("nobody answers"),
    };
    is_gone(told).await;
    let mut came = Vec::new();
    _ = socket.read_to_end(&mut came).await;
    assert!(came.len() < LONG, "{} bytes", came.len());
}

#[tokio::test]
async fn refusal_that_was_read_stops_the_remaining_upload() {
    let standing = Standing::new().await;
    let (request, told) = standing.request(LONG);
    let (reply, mut socket) = tokio::join!(standing.upstream.send(request), async {
        let mut socket = standing.asked().await;
        socket.write_all(refusal("").as_bytes()).await.unwrap();
        socket
    });
    let reply = reply.unwrap();
    assert_eq!(reply.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(reply.collect().await.unwrap().to_bytes(), "long");
    is_gone(told).await;
    let mut came = Vec::new();
    _ = socket.read_to_end(&mut came).await;
    assert!(came.len() < LONG, "{} bytes", came.len());
}

#[tokio::test]
async fn early_success_reply_lets_the_request_continue() {
    let standing = Standing::new().await;
    let (request, _told) = standing.request(LONG);
    let (reply, mut socket) = tokio::join!(standing.upstream.send(request), async {
        let mut socket = standing.asked().await;
        let fine = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        socket.write_all(fine).await.unwrap();
        socket
    });
    assert_eq!(reply.unwrap().collect().await.unwrap().to_bytes(), "ok");
    let mut came = vec![0; LONG];
    socket.read_exact(&mut came).await.unwrap();
    // A body taken in time is not cut off.
    pause();
    advance(LINGER).await;
    yield_now().await;
    resume();
    // The connection also serves the next request.
    let (request, _told) = standing.request(1);
    let (reply, ()) = tokio::join!(standing.upstream.send(request), async {
        head(&mut socket).await;
        socket.write_all(refusal("").as_bytes()).await.unwrap();
    });
    assert_eq!(reply.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn stalled_upload_is_given_up_after_the_reply_was_read() {
    for status in ["200 OK", "304 Not Modified"] {
        let standing = Standing::new().await;
        let (request, told) = standing.request(LONG);
        let (reply, mut socket) = tokio::join!(standing.upstream.send(request), async {
            let mut socket = standing.asked().await;
            let fine = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            socket.write_all(fine.as_bytes()).await.unwrap();
            socket
        });
        drop(reply.unwrap().collect().await.unwrap());
        pause();
        advance(LINGER).await;
        is_gone(told).await;
        resume();
        let mut came = Vec::new();
        _ = socket.read_to_end(&mut came).await;
        assert!(came.len() < LONG, "{} bytes", came.len());
    }
}

/// Returns the result of a request whose upstream sends `said` and then closes with the request
/// unread, which resets the connection.
async fn closed_on(said: &str) -> Result<(StatusCode, Option<Bytes>), Fault> {
    let standing = Standing::new().await;
    let (request, _told) = standing.request(LONG);
    let (reply, ()) = tokio::join!(standing.upstream.send(request), async {
        let mut socket = standing.asked().await;
        // By then, more bytes are under way than the test reads.
        socket.readable().await.unwrap();
        socket.write_all(said.as_bytes()).await.unwrap();
    });
    let reply = reply?;
    let status = reply.status();
    let body = reply.collect().await.ok();
    Ok((status, body.map(http_body_util::Collected::to_bytes)))
}

#[tokio::test]
async fn refusal_is_read_despite_a_following_reset() {
    for fields in ["", "Connection: close\r\n"] {
        for _ in 0..20 {
            let heard = closed_on(&refusal(fields)).await;
            let expect = (StatusCode::PAYLOAD_TOO_LARGE, Some(Bytes::from("long")));
            assert_eq!(heard, Ok(expect));
        }
    }
}

#[tokio::test]
async fn reply_cut_by_a_reset_is_not_complete() {
    for _ in 0..20 {
        assert_eq!(closed_on("").await, Err(Fault::UpstreamBroke));
        let begun = "HTTP/1.1 200 OK\r\n\r\nbegun";
        assert_eq!(closed_on(begun).await, Ok((StatusCode::OK, None)));
    }
}
