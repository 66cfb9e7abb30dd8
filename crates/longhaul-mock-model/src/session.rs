//! The recorded session that `longhaul demo` replays.

use std::io::Read;

use flate2::read::GzDecoder;

use crate::replay::{NotASession, SessionRecording};

/// `cli-0018`: a coding session of 15 user messages, 116 tool results and 112 requests. About
/// 123,000 tokens as the model counts them, almost four windows of 32,768. Its largest message is a
/// quarter of such a window, so the session can be completed. MIT, see `THIRD_PARTY.md`.
static CLI_0018: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/sessions/cli-0018.json.gz"
));

/// Returns a recorded session several 32k windows long, as its agent sent it.
pub fn session() -> Result<SessionRecording, NotASession> {
    let mut body = Vec::new();
    GzDecoder::new(CLI_0018)
        .read_to_end(&mut body)
        .map_err(|error| NotASession::unreadable(&error))?;
    SessionRecording::parse(&body)
}
