//! What the fuzzer asks that is nobody else's: built for it alone.

use http::Uri;
use http::uri::PathAndQuery;

use crate::Config;
use crate::config::{BaseUrl, Layers};
use crate::proxy;

/// The settings of a file with this text, and of nothing else.
#[must_use]
pub fn settings(text: &str) -> Option<Config> {
    let mut layers = Layers::default();
    layers.load_text(text);
    Config::from_resolved(&layers.resolve().ok()?).ok()
}

/// What the upstream at `base` is asked for where `path` was asked for: `None` where either is none.
#[must_use]
pub fn mapped(base: &str, path: &str) -> Option<String> {
    let base = BaseUrl::parse(base).ok()?;
    let asked: PathAndQuery = path.parse().ok()?;
    let mapped = proxy::mapped_path(&base, &asked).ok()?;
    Some(mapped.as_str().to_owned())
}

/// What is asked for below the mount at `mount` where `path` was asked for: `None` where that does
/// not lie under it, or is no target.
#[must_use]
pub fn under(path: &str, mount: &str) -> Option<String> {
    let asked: Uri = path.parse().ok()?;
    let rest = proxy::path_under(&asked, mount)?;
    Some(rest.path_and_query()?.as_str().to_owned())
}
