//! The sessions to evaluate: last request bodies, and the logs of agents.

use std::path::PathBuf;
use std::time::Duration;

use crate::client_logs::{ClientLogs, DAYS};
use crate::error::LabError;
use crate::evaluation::step_request::body_for_model;
use crate::recorded_session::RecordedSession;
use longhaul_core::dialect::Dialect;

/// Age of logs that are named one by one. They may be of any age.
const ANY_AGE: Duration = Duration::from_hours(24 * 365 * 100);
/// Maximum sessions of a run; the largest are chosen. Each is replayed several times.
const MAX_SESSIONS: usize = 64;

/// A session, with every request for the evaluated model.
pub(super) struct EvalSession {
    pub(super) dialect: Dialect,
    pub(super) recording: RecordedSession,
}

impl EvalSession {
    /// Returns the session whose last request is `body`. Returns `None` if `body` is not a request, or if the
    /// provider keeps the history.
    fn from_body(name: &str, body: &[u8], model: &str) -> Option<Self> {
        let conversation = Dialect::read_any(body).ok()?;
        if conversation.is_stateful() {
            return None;
        }
        let dialect = conversation.dialect();
        let body = body_for_model(dialect, conversation.body(), model)?;
        let recording = RecordedSession::from_body(name, body.as_bytes()).ok()?;
        Some(Self { dialect, recording })
    }
}

/// Reads the sessions at `paths`, for requests to `model`: files of request bodies, logs of agents, and
/// folders of both. Fails if a path cannot be read, or holds no session.
pub(super) fn read(paths: &[PathBuf], model: &str) -> Result<Vec<EvalSession>, Vec<LabError>> {
    let (mut sessions, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        if let Err(error) = std::fs::metadata(path) {
            problems.push(LabError::Input { path: path.clone(), reason: error.to_string() });
            continue;
        }
        let age = if path.is_dir() { Duration::from_hours(24 * DAYS) } else { ANY_AGE };
        let logs = ClientLogs::read(&[path], age);
        let found = logs
            .conversations
            .iter()
            .filter_map(|logged| EvalSession::from_body(&logged.name, &logged.body, model));
        let before = sessions.len();
        sessions.extend(found);
        if sessions.len() == before {
            problems.push(LabError::InvalidInput { path: path.clone(), reason: no_session(&logs) });
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if sessions.len() > MAX_SESSIONS {
        sessions.sort_by_cached_key(|session| std::cmp::Reverse(session.recording.len()));
        sessions.truncate(MAX_SESSIONS);
    }
    Ok(sessions)
}

fn no_session(logs: &ClientLogs) -> String {
    if logs.has_database {
        return "export sessions of OpenCode's database: `opencode export ID > FILE.json`"
            .to_owned();
    }
    if logs.older > 0 {
        return format!(
            "no session of the last {DAYS} days; name older files one by one ({} are older)",
            logs.older
        );
    }
    "no session that can be sent again; give the last request body of a session, JSON, gzip or not, or \
     a log of Claude Code, Codex, OpenCode or pi"
        .to_owned()
}
