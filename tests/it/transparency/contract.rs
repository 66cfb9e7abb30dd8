//! The contract: the cases, and what it takes to play one.
//!
//! The tests include it, and so does `examples/conformance.rs`: one copy serves both.

pub(crate) mod between;
mod bodies;
mod breaks;
pub(crate) mod case;
pub(crate) mod compare;
mod connections;
mod departures;
pub(crate) mod exceptions;
pub(crate) mod exchange;
mod fields;
mod interim;
pub(crate) mod message;
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

/// A path that is no chat completion, and so passes unread.
const ORDINARY: &str = "/v1/embeddings";
/// A path whose bodies longhaul reads.
const CHAT: &str = "/v1/chat/completions";

/// The smallest whole reply.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Every line of the contract.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    [
        targets::cases(),
        fields::cases(),
        bodies::cases(),
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

/// Plays a case both ways; both transcripts, the direct one first, or what its script met that it
/// did not expect.
pub(crate) async fn play(case: Case, between: Between) -> Result<(Transcript, Transcript), String> {
    let played = tokio::spawn(async move { case.play(&between).await }).await;
    played.map_err(said)
}

/// What a panicking script said.
fn said(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "was cancelled".to_owned();
    };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panicked".to_owned())
}

/// A request of `method` for `target` with the usual first field, `fields` (each ended by CRLF)
/// and `body` as it stands.
fn request(method: &str, target: &str, fields: &str, body: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: {{host}}\r\n{fields}\r\n{body}")
}

/// A POST of `body` to `target`, by length.
fn post(target: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let fields = format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let mut request = request("POST", target, &fields, "").into_bytes();
    request.extend_from_slice(body);
    request
}

/// The same case for a path that passes unread and for one whose bodies are read.
fn on_both_paths(make: impl Fn(&'static str) -> Case) -> Vec<Case> {
    [ORDINARY, CHAT]
        .into_iter()
        .map(|path| make(path).on(path))
        .collect()
}
