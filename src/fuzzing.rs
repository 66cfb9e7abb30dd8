//! Entry points for the fuzz targets only.

use http::Uri;
use http::uri::PathAndQuery;

use crate::Config;
use crate::config::{BaseUrl, Layers};
use crate::request::paths;

/// Parses the settings of a file with this text and nothing else. Returns `None` if they are
/// invalid.
#[must_use]
pub fn settings(text: &str) -> Option<Config> {
    let mut layers = Layers::default();
    layers.load_text(text);
    Config::from_resolved(&layers.resolve().ok()?).ok()
}

/// Returns the path requested from the upstream at `base` for a request of `path`, or `None` if
/// either is invalid.
#[must_use]
pub fn mapped(base: &str, path: &str) -> Option<String> {
    let base = BaseUrl::parse(base).ok()?;
    let requested: PathAndQuery = path.parse().ok()?;
    let mapped = paths::map(&base, &requested).ok()?;
    Some(mapped.as_str().to_owned())
}

/// Returns `path` without the prefix of the mount at `mount`, or `None` if it is not below the
/// mount or not a valid target.
#[must_use]
pub fn under(path: &str, mount: &str) -> Option<String> {
    let requested: Uri = path.parse().ok()?;
    let rest = paths::strip_mount(&requested, mount)?;
    Some(rest.path_and_query()?.as_str().to_owned())
}
