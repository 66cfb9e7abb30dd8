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

/// `session-bridge-d6382a98`: a session of Codex with 13 user messages and 114 tool results, about five
/// windows of 32,768. MIT, see `THIRD_PARTY.md`.
static SESSION_BRIDGE_D6382A98: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/sessions_responses/session-bridge-d6382a98.json.gz"
));

/// `cli-3a782158`: a session of Claude Code with 13 requests of the user and 121 steps, each with thinking,
/// about five windows of 32,768. MIT, see `THIRD_PARTY.md`.
static CLI_3A782158: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/messages/sessions/cli-3a782158.json.gz"
));

/// The recorded output limit and thinking budget, and those of a session for a small window. The model
/// counts the requested output.
const SMALLER_OUTPUT: [(&str, &str); 2] = [
    (r#""max_tokens":32000"#, r#""max_tokens":4096"#),
    (r#""budget_tokens":31999"#, r#""budget_tokens":2048"#),
];

/// Returns a recorded session of the Messages API several 32k windows long.
///
/// The requests have lower output limits than the recorded ones, and the automatic cache mark.
pub fn messages_session() -> Result<SessionRecording, NotASession> {
    let body = unpack(CLI_3A782158)?;
    let body = SMALLER_OUTPUT
        .iter()
        .fold(body, |body, (recorded, smaller)| body.replacen(recorded, smaller, 1));
    Ok(SessionRecording::parse(body.as_bytes())?.with_moving_mark())
}

/// Returns a recorded session of the Responses API several 32k windows long, as its agent sent it.
pub fn responses_session() -> Result<SessionRecording, NotASession> {
    parse(SESSION_BRIDGE_D6382A98)
}

/// Returns a recorded session several 32k windows long, as its agent sent it.
pub fn session() -> Result<SessionRecording, NotASession> {
    parse(CLI_0018)
}

fn parse(recorded: &[u8]) -> Result<SessionRecording, NotASession> {
    SessionRecording::parse(unpack(recorded)?.as_bytes())
}

fn unpack(recorded: &[u8]) -> Result<String, NotASession> {
    let mut body = String::new();
    GzDecoder::new(recorded)
        .read_to_string(&mut body)
        .map_err(|error| NotASession::unreadable(&error))?;
    Ok(body)
}
