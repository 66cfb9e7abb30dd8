//! Requests that share an HTTP/2 connection, towards clients and towards the upstream.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{pause, resume, sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls};

use crate::harness::{Proxy, Upstream, Wire};

/// A generous limit that only bounds a hang.
const HANG: Duration = Duration::from_secs(20);
/// A long delay on a paused clock that jumps to the next timer when idle.
const STILL: Duration = Duration::from_secs(1);
/// Longer than every deadline, on that clock.
const LONG: Duration = Duration::from_hours(1);
/// More than 16 KiB, but below the limit of a head.
const LONG_FIELD: usize = 20_000;
/// Number of stalled uploads, whose bodies are never read.
const STANDING: usize = 4;

const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

type Sent = BoxBody<Bytes, Infallible>;

/// A body that produces data for as long as it is polled, and counts the polls.
#[derive(Clone, Default)]
struct Endless(Arc<AtomicU64>);

impl Endless {
    /// Waits until polling of the body has stopped.
    async fn stands_still(&self) {
        pause();
        let mut before = 0;
        while self.0.load(Relaxed) != before {
            before = self.0.load(Relaxed);
            sleep(STILL).await;
        }
        resume();
    }
}

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.fetch_add(1, Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16_384])))))
    }
}

fn post(body: Sent) -> Request<Sent> {
    let request = Request::post("http://x/v1/embeddings");
    request.body(body).unwrap()
}

fn whole(body: impl Into<Bytes>) -> Sent {
    Full::new(body.into()).boxed()
}

/// Opens an HTTP/2 client connection to the proxy, with prior knowledge.
async fn client(proxy: &Proxy) -> SendRequest<Sent> {
    let socket = TcpStream::connect(proxy.address).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.max_header_list_size(1 << 20);
    let (sender, connection) = builder.handshake(TokioIo::new(socket)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Awaits a future; panics if it does not complete in time.
async fn comes<F: Future>(what: F) -> F::Output {
    timeout(HANG, what).await.expect("it comes")
}

#[tokio::test]
async fn unread_uploads_do_not_block_other_requests() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let mut sender = client(&proxy).await;
    let mut standing = Vec::new();
    let endless = Endless::default();
    for _ in 0..STANDING {
        let sending = sender.send_request(post(endless.clone().boxed()));
        let sending = tokio::spawn(sending);
        let mut server = upstream.accept().await;
        server.until("\r\n\r\n").await;
        standing.push((server, sending));
    }
    endless.stands_still().await;
    let body = vec![b'y'; 100_000];
    let sending = sender.send_request(post(whole(body.clone())));
    let serving = async {
        let mut server = upstream.accept().await;
        server.until("\r\n\r\n").await;
        assert!(server.skips(b'y', body.len()).await);
        server.send(OK).await;
    };
    let (reply, ()) = comes(async { tokio::join!(sending, serving) }).await;
    assert_eq!(reply.unwrap().status(), 200);
}

#[tokio::test]
async fn long_header_field_passes_in_both_directions() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let mut sender = client(&proxy).await;
    let long = "x".repeat(LONG_FIELD);
    let mut request = post(whole("{}"));
    request.headers_mut().insert("a", long.parse().unwrap());
    let sending = sender.send_request(request);
    let serving = async {
        let mut server = upstream.accept().await;
        let head = server.until("\r\n\r\n").await;
        assert!(head.contains(&format!("\r\na: {long}\r\n")), "{head}");
        let reply = OK.replace("Connection", &format!("b: {long}\r\nConnection"));
        server.send(&reply).await;
    };
    let (reply, ()) = comes(async { tokio::join!(sending, serving) }).await;
    let reply = reply.unwrap();
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.headers()["b"], long);
}

#[tokio::test]
async fn split_cookie_fields_are_forwarded_as_one() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let mut sender = client(&proxy).await;
    let mut request = post(whole("{}"));
    for cookie in ["a=1", "b=2"] {
        let headers = request.headers_mut();
        headers.append("cookie", cookie.parse().unwrap());
    }
    let sending = sender.send_request(request);
    let serving = async {
        let mut server = upstream.accept().await;
        let head = server.until("\r\n\r\n").await.to_lowercase();
        assert_eq!(head.matches("cookie").count(), 1, "{head}");
        assert!(head.contains("\r\ncookie: a=1; b=2\r\n"), "{head}");
        server.send(OK).await;
    };
    let (reply, ()) = comes(async { tokio::join!(sending, serving) }).await;
    assert_eq!(reply.unwrap().status(), 200);
}

#[tokio::test]
async fn forwards_a_get_body_without_content_length_as_chunks() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let mut sender = client(&proxy).await;
    // The body's frames are forwarded without a content length.
    let unannounced = whole("body").map_frame(|frame| frame).boxed();
    let request = Request::get("http://x/v1/files").body(unannounced).unwrap();
    let sending = sender.send_request(request);
    let serving = async {
        let mut server = upstream.accept().await;
        let head = server.until("\r\n\r\n").await;
        assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");
        server.until("4\r\nbody\r\n0\r\n\r\n").await;
        server.send(OK).await;
    };
    let (reply, ()) = comes(async { tokio::join!(sending, serving) }).await;
    assert_eq!(reply.unwrap().status(), 200);
}

/// Answers with a long field; one path streams without end, the others return `ok`.
fn answer(request: &Request<Incoming>, endless: Endless) -> Response<Sent> {
    let body = if request.uri().path() == "/v1/endless" { endless.boxed() } else { whole("ok") };
    let reply = Response::builder().header("long", "x".repeat(LONG_FIELD));
    reply.body(body).unwrap()
}

/// Starts an upstream with HTTP/2 over TLS, and a proxy in front of it that trusts it by a file in
/// this folder. The upstream's connections stall on notification.
async fn multiplexed_upstream(endless: Endless) -> (TempDir, Proxy, Arc<Notify>) {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    std::fs::write(&ca_file, issued.cert.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let still = Arc::new(Notify::new());
    let told = Arc::clone(&still);
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let session = acceptor.accept(socket).await.unwrap();
            let (endless, told) = (endless.clone(), Arc::clone(&told));
            tokio::spawn(serve(TokioIo::new(session), endless, told));
        }
    });
    let settings = [("upstream.ca_file", ca_file.to_str().unwrap()), ("upstream.http2", "auto")];
    let proxy = Proxy::start(&format!("https://localhost:{port}/v1"), &settings).await;
    (dir, proxy, still)
}

/// Serves until notified to stall: from then on it neither reads, writes nor closes.
async fn serve(io: TokioIo<TlsStream<TcpStream>>, endless: Endless, still: Arc<Notify>) {
    let service =
        service_fn(|request| ready(Ok::<_, Infallible>(answer(&request, endless.clone()))));
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let mut serving = pin!(builder.serve_connection(io, service));
    tokio::select! {
        _ = serving.as_mut() => {}
        () = still.notified() => pending().await,
    }
}

async fn asks(proxy: &Proxy, path: &str) -> Wire {
    let mut client = proxy.connect().await;
    let ask = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    client.send(&ask).await;
    client
}

#[tokio::test]
async fn unread_replies_do_not_block_other_requests() {
    let endless = Endless::default();
    let (_dir, proxy, _) = multiplexed_upstream(endless.clone()).await;
    let mut standing = Vec::new();
    for _ in 0..STANDING {
        let mut client = asks(&proxy, "/v1/endless").await;
        client.until("\r\n\r\n").await;
        standing.push(client);
    }
    endless.stands_still().await;
    let reply = comes(async { asks(&proxy, "/v1/models").await.rest().await }).await;
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(reply.contains(&"x".repeat(LONG_FIELD)), "{reply}");
    assert!(reply.ends_with("\r\n\r\nok"));
}

#[tokio::test]
async fn dead_upstream_connection_is_detected_and_replaced() {
    let (_dir, proxy, still) = multiplexed_upstream(Endless::default()).await;
    let asked = async || asks(&proxy, "/v1/models").await.rest().await;
    assert!(comes(asked()).await.starts_with("HTTP/1.1 200 "));
    still.notify_waiters();
    pause();
    let reply = timeout(LONG, asked()).await.expect("it comes");
    resume();
    assert!(reply.contains("x-longhaul-fault: upstream_broke\r\n"), "{reply}");
    assert!(comes(asked()).await.starts_with("HTTP/1.1 200 "));
}
