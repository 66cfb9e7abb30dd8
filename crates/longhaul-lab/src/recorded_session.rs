//! The session to play: the built-in one or a user's own.

use std::io::Read;
use std::path::Path;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::error::{LabError, invalid_session};
use longhaul_console::input::open_input;
use longhaul_mock_model::{
    NotASession, SessionRecording, messages_session, responses_session, session,
};

/// The maximum size of a decompressed session: the proxy's default limit for one body.
const SESSION_BYTES: u64 = 256 << 20;

type Recording = fn() -> Result<SessionRecording, NotASession>;
/// The built-in sessions: the word for the API, the session's name, and its recording.
pub(crate) const BUILT_IN: [(&str, &str, Recording); 3] = [
    ("chat", "cli-0018, a recorded coding session", session),
    ("messages", "cli-3a782158, a recorded session of Claude Code", messages_session),
    ("responses", "session-bridge-d6382a98, a recorded session of Codex", responses_session),
];

/// A recorded session whose requests alternate between plain and streamed replies.
pub(crate) struct RecordedSession {
    /// The session's name.
    pub(crate) name: String,
    whole: SessionRecording,
    /// The requests as streams, or `None` if the recording itself sets `stream`.
    streamed: Option<SessionRecording>,
}

/// A request of the session.
pub(crate) struct SessionRequest {
    /// The number of messages.
    pub(crate) messages: usize,
    /// The request's body.
    pub(crate) body: Vec<u8>,
}

impl RecordedSession {
    /// Returns the session of `api`, a word of [`BUILT_IN`]. Fails for another word.
    pub(crate) fn built_in(api: &str) -> Result<Self, String> {
        let found = BUILT_IN.into_iter().find(|(word, ..)| *word == api);
        let (_, name, session) = found.ok_or_else(|| format!("no built-in session of {api}"))?;
        Self::new(name, session().map_err(|error| error.to_string())?)
    }

    /// Returns the path of the session's API, after the base URL.
    pub(crate) fn path(&self) -> &'static str {
        self.whole.path()
    }

    /// Reads a session from a file that holds its last request body. Fails if the file cannot be
    /// read or holds no session.
    pub(crate) fn read(file: &Path) -> Result<Self, LabError> {
        let input = open_input(file)
            .map_err(|error| LabError::Input { path: file.into(), reason: error.to_string() })?;
        let session = read_limited(input)
            .and_then(|body| Self::from_body(&file.display().to_string(), &body));
        session.map_err(|reason| invalid_session(file, &reason))
    }

    /// Builds a session from its last request body. Fails if the body holds no session; the text
    /// says why.
    pub(crate) fn from_body(name: &str, body: &[u8]) -> Result<Self, String> {
        let replay = SessionRecording::parse(body).map_err(|_| {
            let is_json = serde_json::from_slice::<IgnoredAny>(body).is_ok();
            if is_json { "the JSON has no messages of a chat" } else { "the file is not JSON" }
        })?;
        Self::new(name, replay)
    }

    /// Returns the session with a cache mark in each request, as agents of the Messages API send it.
    pub(crate) fn with_moving_mark(self) -> Self {
        let streamed = self.streamed.map(SessionRecording::with_moving_mark);
        Self { name: self.name, whole: self.whole.with_moving_mark(), streamed }
    }

    fn new(name: &str, whole: SessionRecording) -> Result<Self, String> {
        let last = whole.requests().next_back().map(|request| request.body());
        let Some(last) = last else {
            return Err("it has no user message, so there is no request to play".to_owned());
        };
        let body: Option<Value> = serde_json::from_slice(&last).ok();
        let says = body.is_some_and(|body| body.get("stream").is_some());
        let streamed = (!says).then(|| whole.clone().with_field("stream", "true"));
        Ok(Self { name: name.to_owned(), whole, streamed })
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.requests().len()
    }

    /// Returns the bodies of all requests in order, as recorded.
    pub(crate) fn bodies(&self) -> impl ExactSizeIterator<Item = Vec<u8>> + '_ {
        self.whole.requests().map(|request| request.body())
    }

    /// Returns the recorded step after the request at `at`. `None` if the recording ends there, or the user
    /// went on without waiting.
    pub(crate) fn step_after(&self, at: usize) -> Option<&str> {
        str::from_utf8(self.whole.requests().nth(at)?.reply()?).ok()
    }

    /// Returns the requests in order, every other one as a stream.
    pub(crate) fn requests(&self) -> impl Iterator<Item = SessionRequest> + '_ {
        let streamed = self.streamed.as_ref().unwrap_or(&self.whole).requests();
        let both = self.whole.requests().zip(streamed);
        both.enumerate().map(|(at, (whole, streamed))| {
            let request = if at % 2 == 0 { whole } else { streamed };
            SessionRequest { messages: request.messages(), body: request.body() }
        })
    }
}

fn read_limited(input: impl Read) -> Result<Vec<u8>, String> {
    let mut read = Vec::new();
    let input = input.take(SESSION_BYTES + 1).read_to_end(&mut read);
    input.map_err(|error| error.to_string())?;
    if read.len() as u64 > SESSION_BYTES {
        return Err(format!("larger than {} MiB", SESSION_BYTES >> 20));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const TWO: &str = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]}"#;

    fn check(file: &[u8], expect: Result<&[Option<bool>], &str>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session");
        std::fs::write(&path, file).unwrap();
        let found = RecordedSession::read(&path).map(|session| {
            assert_eq!(session.len(), session.requests().count());
            let streams = session.requests().map(|request| {
                let body: Value = serde_json::from_slice(&request.body).unwrap();
                body.get("stream").and_then(Value::as_bool)
            });
            streams.collect::<Vec<_>>()
        });
        match (found, expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found, expect),
            (Err(found), Err(expect)) => {
                assert!(format!("{found:?}").contains(expect), "{found:?}");
            }
            (found, expect) => panic!("{found:?} for {expect:?}"),
        }
    }

    #[test]
    fn alternates_between_plain_and_streamed_requests() {
        check(TWO.as_bytes(), Ok(&[None, Some(true)]));
    }

    #[test]
    fn recorded_stream_setting_is_kept() {
        let says = TWO.replacen('{', r#"{"stream": false, "#, 1);
        check(says.as_bytes(), Ok(&[Some(false), Some(false)]));
    }

    #[test]
    fn reads_gzip_by_its_first_bytes() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(TWO.as_bytes()).unwrap();
        check(&packed.finish().unwrap(), Ok(&[None, Some(true)]));
    }

    #[test]
    fn rejects_an_invalid_session_file_with_the_reason() {
        check(b"no JSON", Err("give the last request body of a session"));
        check(b"{}", Err("messages"));
        check(b"{\"messages\": []}", Err("no messages"));
        check(br#"{"messages": [{"role": "system", "content": "a"}]}"#, Err("no user message"));
        check(&[0x1f, 0x8b, 0], Err("end of file"));
    }
}
