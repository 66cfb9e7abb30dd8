//! The recorded sessions, read from the fixtures.

use flate2::read::GzDecoder;
use longhaul_mock_model::SessionRecording;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Error type that can be passed between threads.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Names of the repositories whose sessions judge what the others helped to choose.
const JUDGING: [&str; 6] = [
    "agentv",
    "context-evaluator",
    "oh-my-posh",
    "openhands",
    "pi-",
    "sweagent",
];

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
        let judges = JUDGING.iter().any(|start| session.starts_with(start));
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

/// Loads the sessions of `part` whose names contain a string of `wanted`, or all if `wanted` is
/// empty. The order is the same on every machine.
pub(crate) fn sessions(wanted: &[String], part: Part) -> Result<Vec<Session>, Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
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
        sessions.push(Session {
            name: name.to_owned(),
            replay: SessionRecording::parse(&body)?,
            body,
        });
    }
    if sessions.is_empty() {
        return Err("no session has such a name".into());
    }
    sessions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(sessions)
}
