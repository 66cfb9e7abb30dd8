//! The source of a window, and a window with its source.

use crate::units::tokens::Tokens;
use serde::{Deserialize, Serialize};

crate::labels! {
    /// The source of a window. Serialised in a few words for people.
    #[derive(Deserialize, Serialize)]
    #[serde(rename_all = "lowercase")]
    WindowSource {
        /// No source: the default is assumed.
        Assumed = "assumed",
        /// The size of a refused request: the refusal stated no limit.
        #[serde(rename = "estimated from a refusal")]
        RefusedSize = "estimated",
        /// The limit that a refusal stated.
        #[serde(rename = "stated in a refusal")]
        Refusal = "refusal",
        /// The operator's setting.
        Setting = "setting",
        /// The table of models.
        #[serde(rename = "table of models")]
        Table = "table",
        /// The upstream's model listing.
        #[serde(rename = "listed by the upstream")]
        Upstream = "upstream",
    }
}

/// A window in the unit of its source.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SourcedWindow {
    /// Tokens as the source counts them.
    pub tokens: Tokens,
    /// The source.
    pub source: WindowSource,
}
