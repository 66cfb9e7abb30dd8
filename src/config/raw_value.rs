//! Unparsed values and their origins.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::error::Problem;

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum RawValue {
    /// A list, which only the file can express as one.
    List(Vec<String>),
    Text(String),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// The built-in default.
    Default,
    Environment(String),
    File(PathBuf, usize),
    /// A flag, with its dashes.
    Flag(String),
}

impl Origin {
    /// Returns the line in the configuration file; zero elsewhere.
    pub(super) fn line(&self) -> usize {
        if let Self::File(_, line) = self { *line } else { 0 }
    }

    /// Builds the problem for a value from here; `key` is the setting's.
    pub(super) fn problem(&self, key: &str, reason: impl fmt::Display) -> Problem {
        Problem::Setting(format!("{key} from {self}: {reason}"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Environment(name) => write!(f, "env {name}"),
            Self::File(path, line) => write!(f, "file {}:{line}", path.display()),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}
