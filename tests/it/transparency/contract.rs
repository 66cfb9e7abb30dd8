//! The contract: the cases, and the code that plays them.
//!
//! The tests and `examples/conformance.rs` both include this module.

pub(crate) mod between;
mod bodies;
mod breaks;
pub(crate) mod case;
pub(crate) mod compare;
mod connections;
mod departures;
mod dialects;
pub(crate) mod exceptions;
pub(crate) mod exchange;
mod fields;
mod interim;
pub(crate) mod message;
pub(crate) mod multiplexed;
pub(crate) mod peer;
mod replies;
mod streams;
mod targets;
mod tls;
mod volume;

use between::Between;
use case::Case;
use exchange::Transcript;
use tokio::task::JoinError;

/// A path other than chat completions; longhaul does not read its bodies.
const ORDINARY: &str = "/v1/embeddings";
/// A path whose bodies longhaul reads.
const CHAT: &str = "/v1/chat/completions";

/// The shortest complete reply.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Returns every case of the contract.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    [
        targets::cases(),
        fields::cases(),
        bodies::cases(),
        dialects::cases(),
        replies::cases(),
        streams::cases(),
        interim::cases(),
        connections::cases(),
        departures::cases(),
        breaks::cases(),
        volume::cases(),
    ]
    .into_iter()
    .flatten()
}

/// Plays a case both ways. Returns both transcripts, the direct one first, or the message of the
/// script's panic.
pub(crate) async fn play(case: Case, between: Between) -> Result<(Transcript, Transcript), String> {
    let played = tokio::spawn(async move { case.play(&between).await }).await;
    played.map_err(said)
}

/// Returns the message of a panic in a script.
fn said(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "was cancelled".to_owned();
    };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panicked".to_owned())
}

/// Builds a request with the usual first field, `fields` (each ended by CRLF) and `body` unchanged.
fn request(method: &str, target: &str, fields: &str, body: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: {{host}}\r\n{fields}\r\n{body}")
}

/// Builds a POST of `body` to `target`, with `Content-Length`.
fn post(target: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let mut request = request("POST", target, &fields, "").into_bytes();
    request.extend_from_slice(body);
    request
}

/// Builds the case twice: for a path that passes unread, and for one whose bodies are read.
fn on_both_paths(make: impl Fn(&'static str) -> Case) -> Vec<Case> {
    [ORDINARY, CHAT].into_iter().map(|path| make(path).on(path)).collect()
}
