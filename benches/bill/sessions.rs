//! The recorded sessions, read from the fixtures.

use flate2::read::GzDecoder;
use longhaul_mock_model::SessionRecording;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Error type that can be passed between threads.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

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

/// Loads the sessions whose names contain a string of `wanted`, or all if `wanted` is empty. The
/// order is the same on every machine.
pub(crate) fn sessions(wanted: &[String]) -> Result<Vec<Session>, Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
    let mut sessions = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file.strip_suffix(".json.gz") else {
            continue;
        };
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
