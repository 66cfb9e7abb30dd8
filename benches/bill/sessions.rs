//! The recorded sessions, read from the fixtures.

use flate2::read::GzDecoder;
use longhaul_mock_model::SessionRecording;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Error type that can be passed between threads.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Names of the repositories on whose sessions numbers were chosen. All others judge the choice, as in `bench/judge`.
const BUILDING: [&str; 4] = ["cli-", "deepagents-", "session-bridge-", "tau-airline-"];

/// The API of the sessions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Api {
    ChatCompletions,
    Messages,
    Responses,
}

impl Api {
    /// Names of the APIs, as options give them.
    #[allow(dead_code, reason = "some benchmarks measure one API only")]
    pub(crate) const NAMES: [&str; 3] = ["chat", "messages", "responses"];

    /// Returns the API with this name; `None` if there is none.
    #[allow(dead_code, reason = "some benchmarks measure one API only")]
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "chat" => Some(Self::ChatCompletions),
            "messages" => Some(Self::Messages),
            "responses" => Some(Self::Responses),
            _ => None,
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::ChatCompletions => "fixtures/sessions",
            Self::Messages => "fixtures/messages/sessions",
            Self::Responses => "fixtures/sessions_responses",
        }
    }

    /// Returns the path of the API.
    #[allow(dead_code, reason = "some benchmarks send no request")]
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
        }
    }

    /// Returns the session as its agent plays it. The recordings of the Messages API have lost the
    /// cache marks of all requests but the last, so each request sets the automatic mark.
    fn parse(self, body: &[u8]) -> Result<SessionRecording, Failure> {
        let replay = SessionRecording::parse(body)?;
        Ok(match self {
            Self::ChatCompletions | Self::Responses => replay,
            Self::Messages => replay.with_field("cache_control", r#"{"type":"ephemeral"}"#),
        })
    }
}

/// Sessions of some repositories.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    All,
    /// Sessions on which numbers were chosen.
    Build,
    /// Sessions that no choice has seen.
    Judge,
}

impl Part {
    /// Returns the part with this name; `None` if there is none.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "all" => Some(Self::All),
            "build" => Some(Self::Build),
            "judge" => Some(Self::Judge),
            _ => None,
        }
    }

    fn contains(self, session: &str) -> bool {
        let judges = !BUILDING.iter().any(|start| session.starts_with(start));
        match self {
            Self::All => true,
            Self::Build => !judges,
            Self::Judge => judges,
        }
    }
}

/// A recorded session.
#[derive(Clone)]
pub(crate) struct Session {
    /// File name without extensions.
    pub(crate) name: String,
    /// The last request body sent by its agent.
    pub(crate) body: Vec<u8>,
    /// The session's requests.
    pub(crate) replay: SessionRecording,
}

/// Loads the sessions of an API and `part` whose names contain a string of `wanted`, or all if `wanted` is
/// empty. The order is the same on every machine.
pub(crate) fn sessions(api: Api, wanted: &[String], part: Part) -> Result<Vec<Session>, Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(api.folder());
    let mut sessions = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file.strip_suffix(".json.gz") else {
            continue;
        };
        if !part.contains(name) {
            continue;
        }
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part)) {
            continue;
        }
        let mut body = Vec::new();
        GzDecoder::new(File::open(&path)?).read_to_end(&mut body)?;
        sessions.push(Session { name: name.to_owned(), replay: api.parse(&body)?, body });
    }
    if sessions.is_empty() {
        return Err("no session has such a name".into());
    }
    sessions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(sessions)
}
