//! The contract for clients on HTTP/2: the upstream receives the method, target, fields and content
//! that the client sent, and the client the status, fields, content and trailers of the reply.
//!
//! Framing, order and case of fields have no counterpart in HTTP/2, so messages are compared instead
//! of bytes. A case with a field of the connection, or one that a list of exceptions covers, has no
//! form there.

use super::case::Case;
use super::exchange::Upstream;
use super::message::{self, Kind, Message};
use super::peer::patience;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Fields of the connection, which HTTP/2 does not have (RFC 9113, 8.2.2), and `Expect`, whose
/// interim reply belongs to it.
const OF_THE_CONNECTION: [&str; 7] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];
/// Fields that the framing of each connection decides.
const OF_THE_FRAMING: [&str; 3] = ["content-length", "host", "transfer-encoding"];

/// Longer than every head of the contract, in bytes.
const LONG_HEAD: u32 = 1 << 20;

/// Names and values of fields, sorted.
type Fields = Vec<(String, String)>;

/// A request and its reply, as the script of a case sends them.
struct Plain<'c> {
    request: Message,
    reply: Message,
    /// The reply with its framing.
    bytes: &'c [u8],
}

/// Plays a case with the client on HTTP/2 to `proxy`, which forwards to `upstream`. Returns `None` if
/// the case has no form in HTTP/2.
pub(crate) async fn play(
    case: &Case,
    proxy: SocketAddr,
    upstream: &Arc<TcpListener>,
) -> Option<Result<(), String>> {
    let plain = Plain::of(case)?;
    let request = plain.request(proxy)?;
    let upstream = Upstream::on(Arc::clone(upstream));
    upstream.forgets_who_waits().await;
    let played = timeout(patience(), exchange(&plain, request, proxy, upstream)).await;
    Some(played.unwrap_or_else(|_| Err("nothing came in time".to_owned())))
}

impl<'c> Plain<'c> {
    fn of(case: &'c Case) -> Option<Self> {
        let (request, bytes) = case.plain.as_ref().filter(|_| case.allows.is_empty())?;
        let one = |bytes: &[u8], kind| {
            let mut messages = message::split(bytes, &[kind]);
            messages.pop().filter(|_| messages.is_empty())
        };
        let request = one(request, Kind::Request).filter(|request| request.complete)?;
        let reply = one(bytes, request.reply_kind())?;
        let is_plain = |name: &str| !OF_THE_CONNECTION.contains(&name);
        let mut names = request.fields.iter().chain(&reply.fields);
        let is_ended_by_close = !reply.complete && reply.values("content-length").is_empty();
        let has_form = names.all(|line| {
            let name = message::name(line);
            is_plain(&name) || name == "transfer-encoding"
        });
        let is_final = !reply.status().starts_with(b"1");
        (has_form && is_final && (reply.complete || is_ended_by_close)).then_some(Self {
            request,
            reply,
            bytes,
        })
    }

    /// Returns the request for HTTP/2, if its parts are valid there.
    fn request(&self, proxy: SocketAddr) -> Option<Request<Full<Bytes>>> {
        let start = str::from_utf8(&self.request.start).ok()?;
        let (method, rest) = start.split_once(' ')?;
        let (target, _) = rest.rsplit_once(' ')?;
        if !target.starts_with('/') {
            return None;
        }
        let mut request = Request::builder().method(method).uri(format!("http://{proxy}{target}"));
        for (name, value) in fields(&self.request.fields) {
            request = request.header(name, value);
        }
        let content = Bytes::from(self.request.content.clone());
        request.body(Full::new(content)).ok()
    }
}

async fn exchange(
    plain: &Plain<'_>,
    request: Request<Full<Bytes>>,
    proxy: SocketAddr,
    mut upstream: Upstream,
) -> Result<(), String> {
    let socket = TcpStream::connect(proxy).await.map_err(told)?;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.max_header_list_size(LONG_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(socket)).await.map_err(told)?;
    let connection = tokio::spawn(connection);
    let asking = async {
        let reply: Response<Incoming> = sender.send_request(request).await.map_err(told)?;
        let (head, body) = reply.into_parts();
        let body = body.collect().await.map_err(told)?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        Ok::<_, String>((head, body.to_bytes(), trailers))
    };
    let serving = async {
        upstream.sees_request().await;
        upstream.says(plain.bytes).await;
        upstream.peer().stops_sending().await;
        upstream.peer().sees_end().await;
        message::split(upstream.peer().heard(), &[Kind::Request])
    };
    let (reply, requests) = tokio::join!(asking, serving);
    connection.abort();
    let [request] = requests.as_slice() else {
        return Err(format!("the upstream received {} requests", requests.len()));
    };
    same("the request line", &plain.request.start, &request.start)?;
    same("the fields of the request", &fields(&plain.request.fields), &fields(&request.fields))?;
    same("the content of the request", &plain.request.content, &request.content)?;
    let (head, content, trailers) = reply?;
    let status = head.status.as_str().as_bytes().to_vec();
    same("the status", &plain.reply.status().to_vec(), &status)?;
    same("the fields of the reply", &fields(&plain.reply.fields), &of_map(&head.headers))?;
    same("the content of the reply", &plain.reply.content, &content.to_vec())?;
    same("the trailers", &fields(&plain.reply.trailers), &of_map(&trailers))
}

fn told(error: impl std::error::Error) -> String {
    error.to_string()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, sent: &T, heard: &T) -> Result<(), String> {
    if sent == heard {
        return Ok(());
    }
    Err(format!("{what} {sent:?} arrived as {heard:?}"))
}

/// Returns names in lower case and values of field lines, without those of the framing.
fn fields(lines: &[Vec<u8>]) -> Fields {
    let pairs = lines
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| (message::name(line), message::value(line)));
    sorted(pairs)
}

fn of_map(map: &HeaderMap) -> Fields {
    sorted(map.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), value.into_owned())
    }))
}

fn sorted(pairs: impl Iterator<Item = (String, String)>) -> Fields {
    let mut fields: Fields =
        pairs.filter(|(name, _)| !OF_THE_FRAMING.contains(&name.as_str())).collect();
    fields.sort();
    fields
}
