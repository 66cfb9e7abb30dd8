//! Values of the store settings: where records are kept, and how callers are distinguished.

use std::fmt;
use std::path::PathBuf;

use http::HeaderName;

/// Criterion that distinguishes callers. Records of different callers are kept apart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CallerIdentity {
    /// By their own credentials.
    Credentials,
    /// By this header, which something in front of longhaul sets and no client can.
    Header(HeaderName),
}

/// Durable location of records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreLocation {
    /// A file.
    File(PathBuf),
    /// No durable location: records end with the process.
    Memory,
    /// A Redis or Valkey server.
    Redis(RedisUrl),
}

/// URL of a Redis or Valkey server. It may contain a password, which `Debug` and `Display` leave
/// out.
#[derive(Clone, Eq, PartialEq)]
pub struct RedisUrl(pub(super) String);

impl RedisUrl {
    /// Returns the URL as given, with the password.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("redis", &self.0));
        // A socket URL has its password after the path, a host URL before the host.
        let (user, place) = match rest.rsplit_once('@') {
            Some((_, place)) if !scheme.ends_with("+unix") => ("…@", place),
            _ => ("", rest),
        };
        let (place, query) = match place.split_once('?') {
            Some((place, _)) => (place, "?…"),
            None => (place, ""),
        };
        write!(f, "{scheme}://{user}{place}{query}")
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// URL schemes that Redis and Valkey clients use; `s` means TLS.
const REDIS_SCHEMES: &str = "redis redis+cluster redis+unix rediss rediss+cluster \
                             valkey valkey+cluster valkey+unix valkeys valkeys+cluster";

impl StoreLocation {
    /// Parses a location. The error states what was expected and leaves out the text, which may
    /// contain a password.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("memory") {
            return Ok(Self::Memory);
        }
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            if path.starts_with("~/") {
                return Err(
                    "found a path that begins with ~/, which only a shell expands; write it out, as \
                     file:/home/YOU/longhaul.db, or let the shell do it: file:$HOME/longhaul.db",
                );
            }
            return Ok(Self::File(path.into()));
        }
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| REDIS_SCHEMES.split(' ').any(|known| known == scheme)) {
            return Ok(Self::Redis(RedisUrl(text.to_owned())));
        }
        Err("expected memory, file:PATH, or redis://HOST:PORT, with rediss for TLS and \
             redis+cluster://HOST:PORT,HOST:PORT for a Cluster")
    }
}
