//! Errors of the lab's commands. The program words them and chooses the exit code.

use std::path::{Path, PathBuf};

use longhaul_core::dialect::bypass::Bypass;

/// Reason why a command of the lab cannot do its work.
#[derive(Debug)]
pub enum LabError {
    /// The command line or a file that it names cannot be used; the text says what to do.
    CommandLine(String),
    /// A file cannot be read.
    Input {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        reason: String,
    },
    /// A file holds no session.
    InvalidInput {
        /// Path of the file.
        path: PathBuf,
        /// The fault, and the expected content.
        reason: String,
    },
    /// A file holds a session whose requests longhaul does not read.
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Reason why longhaul forwards such a request unread.
        bypass: Bypass,
    },
    /// Loopback cannot be used, or the proxy cannot start.
    Listen(String),
    /// The system grants no thread.
    System(String),
    /// No call to the upstream had an answer.
    Unanswered(String),
}

/// Creates the error for a file that is not a session.
pub fn invalid_session(file: &Path, reason: &str) -> LabError {
    LabError::InvalidInput {
        path: file.into(),
        reason: format!(
            "no session: {reason}; give the last request body of a session, JSON, gzip or not, or an agent's log"
        ),
    }
}

impl From<LabError> for Vec<LabError> {
    fn from(error: LabError) -> Self {
        vec![error]
    }
}
