//! The window in force for a request, as its source states it.

use serde::{Serialize, Serializer};

use longhaul_core::units::tokens::Tokens;

/// Window of a request in the unit of its source, with that source.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct WindowNote {
    /// Tokens as the source counts them.
    pub(crate) tokens: Tokens,
    pub(crate) source: WindowSource,
}

impl Serialize for WindowSource {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.words())
    }
}

/// Source of a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WindowSource {
    /// No source states a window.
    Assumed,
    /// The size of a refused request, in estimated tokens: the refusal stated no limit.
    EstimatedFromRefusal,
    /// The limit that a refusal stated.
    Refusal,
    /// A setting.
    Setting,
    /// The built-in table of models.
    Table,
    /// The upstream's list of models.
    Upstream,
}

impl WindowSource {
    /// Returns the source in a few words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::EstimatedFromRefusal => "estimated from a refusal",
            Self::Refusal => "stated in a refusal",
            Self::Setting => "setting",
            Self::Table => "table of models",
            Self::Upstream => "listed by the upstream",
        }
    }

    /// Returns the source as one word, for machines.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::EstimatedFromRefusal => "estimated",
            Self::Refusal => "refusal",
            Self::Setting => "setting",
            Self::Table => "table",
            Self::Upstream => "upstream",
        }
    }
}
