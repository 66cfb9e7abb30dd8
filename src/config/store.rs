//! Where records are kept, for whom and for how long; read out of the layers.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::layers::Resolved;
use super::settings::conversations as asked;
use crate::error::Problem;

/// Where records live between requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreConfig {
    /// Bytes of records kept in memory.
    pub memory: u64,
    /// Where they lie beside that.
    pub at: StoreAt,
    /// How long an entry is kept from its last use.
    pub ttl: Duration,
    /// Certificates to trust as a server with TLS, and no others.
    pub ca_file: Option<PathBuf>,
}

/// Where records outlive the process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreAt {
    /// In this file.
    File(PathBuf),
    /// Nowhere.
    Memory,
    /// At this server.
    Redis(RedisUrl),
}

/// The URL of a Redis or Valkey server. It may hold a password, so no rendering of it shows one.
#[derive(Clone, Eq, PartialEq)]
pub struct RedisUrl(String);

impl RedisUrl {
    /// The URL as it was given, with the password.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("redis", &self.0));
        match rest.rsplit_once('@') {
            Some((_, place)) => write!(f, "{scheme}://…@{place}"),
            None => write!(f, "{scheme}://{rest}"),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How clients of Redis and Valkey name servers; `s` is for TLS.
const SERVERS: [&str; 10] = [
    "redis",
    "redis+cluster",
    "redis+unix",
    "rediss",
    "rediss+cluster",
    "valkey",
    "valkey+cluster",
    "valkey+unix",
    "valkeys",
    "valkeys+cluster",
];

impl StoreAt {
    /// Where `text` says. The error says what was expected, without the text: it may hold a
    /// password.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("memory") {
            return Ok(Self::Memory);
        }
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            return Ok(Self::File(path.into()));
        }
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| SERVERS.contains(&scheme)) {
            return Ok(Self::Redis(RedisUrl(text.to_owned())));
        }
        Err(
            "expected memory, file:PATH, or redis://HOST:PORT, with rediss for TLS and \
             redis+cluster://HOST:PORT,HOST:PORT for a Cluster",
        )
    }
}

/// What the settings say of the store.
///
/// # Errors
/// Two settings do not go together.
pub(super) fn store(found: &Resolved) -> Result<StoreConfig, Problem> {
    Ok(StoreConfig {
        memory: found.value(&asked::STORE_MEMORY)?,
        at: found.value(&asked::STORE_AT)?,
        ttl: found.value(&asked::STORE_TTL)?,
        ca_file: found.value(&asked::STORE_CA_FILE)?,
    })
}
