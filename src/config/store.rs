//! Store settings: location, scope and lifetime of records.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::locations::{CallerIdentity, StoreLocation};
use super::problems::read_all;
use super::resolved::ResolvedSettings;
use super::setting::Setting;
use super::{keys, recall, settings};
use crate::error::Problem;

/// Minimum characters of a secret: 32 hexadecimal digits are 128 bits.
const LEAST: usize = 32;

/// Store configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreConfig {
    /// Bytes of records kept in memory.
    pub memory_bytes: u64,
    /// Durable location of records, in addition to memory.
    pub location: StoreLocation,
    /// Lifetime of an entry, counted from its last use.
    pub ttl: Duration,
    /// PEM certificates to trust for a server with TLS, exclusively.
    pub ca_file: Option<PathBuf>,
    /// Total time that a request waits for the store.
    pub wait_limit: Duration,
    /// Bytes of entries in a file store.
    pub max_bytes: u64,
    /// Whether originals are kept for recall.
    pub keeps_originals: bool,
    /// Lifetime of an original, counted from its last use.
    pub recall_ttl: Duration,
    /// Bytes of originals: in memory, in a file, or of each caller at a server.
    pub recall_max_bytes: u64,
    /// Secret for deriving scopes; required if processes share the store.
    pub scope_secret: Option<ScopeSecret>,
    /// Criterion that distinguishes callers.
    pub scope: CallerIdentity,
    /// Whether a command that serves may keep what it learns about models in the user's state folder,
    /// while records stay in memory.
    pub keeps_lessons: bool,
    /// File for what is learned about models while records stay in memory; set by such a command.
    pub(crate) lessons: Option<PathBuf>,
    /// Beginning of the path of the totals by day, if the store is at servers. `None` keeps them in
    /// memory.
    pub(crate) totals: Option<PathBuf>,
}

/// The secret that scopes are derived from. Neither `Debug` nor an error shows it.
#[derive(Clone, Eq, PartialEq)]
pub struct ScopeSecret(String);

impl ScopeSecret {
    /// Parses a secret. Errors never include it.
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.chars().count() < LEAST {
            return Err(format!("expected {LEAST} or more random characters"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the secret itself.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ScopeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeSecret")
    }
}

/// Reads the store configuration from the settings. Fails if two settings conflict, or a file
/// cannot be used.
pub(super) fn read_store(found: &ResolvedSettings) -> Result<StoreConfig, Vec<Problem>> {
    read_all! {
        ttl = lifetime(found, &settings::STORE_TTL);
        recall_ttl = lifetime(found, &settings::STORE_RECALL_TTL);
        scope = scope(found);
        scope_secret = required_secret(found);
    }
    Ok(StoreConfig {
        memory_bytes: found.value(&settings::STORE_MEMORY)?,
        location: found.value(&settings::STORE_AT)?,
        ttl,
        ca_file: found.value(&settings::STORE_CA_FILE)?,
        wait_limit: found.value(&settings::STORE_WAIT)?,
        max_bytes: found.value(&settings::STORE_MAX_BYTES)?,
        keeps_originals: recall::is_on(found)?,
        recall_ttl,
        recall_max_bytes: found.value(&settings::STORE_RECALL_MAX_BYTES)?,
        scope_secret,
        scope,
        keeps_lessons: found.value(&settings::STORE_LESSONS)?,
        lessons: None,
        totals: None,
    })
}

/// Reads how long entries are kept.
fn lifetime(found: &ResolvedSettings, of: &Setting<Duration>) -> Result<Duration, Problem> {
    let ttl = found.value(of)?;
    if ttl.as_secs() == 0 {
        let reason = "expected a duration of at least a second, like 168h";
        return Err(found.value_problem(of, reason.into()));
    }
    Ok(ttl)
}

fn scope(found: &ResolvedSettings) -> Result<CallerIdentity, Problem> {
    let scope = found.value(&settings::STORE_SCOPE)?;
    if let CallerIdentity::Header(name) = &scope {
        let trusted = found.value(&settings::STORE_TRUSTED_HEADERS)?;
        let is_trusted = |trusted: &String| trusted.trim().eq_ignore_ascii_case(name.as_str());
        if !trusted.iter().any(is_trusted) {
            let reason = format!(
                "found header:{name}, which any client could send; list it in {} if something in \
                 front of longhaul sets it and removes a client's own",
                settings::STORE_TRUSTED_HEADERS.key
            );
            return Err(found.value_problem(&settings::STORE_SCOPE, reason));
        }
    }
    Ok(scope)
}

/// Returns the scope secret, and checks that one is set if processes share the store.
fn required_secret(found: &ResolvedSettings) -> Result<Option<ScopeSecret>, Problem> {
    let (direct, file) = (&settings::STORE_SCOPE_SECRET, &settings::STORE_SCOPE_SECRET_FILE);
    let secret = keys::read_secret(found, direct, file, ScopeSecret::parse)?;
    if secret.is_none() && matches!(found.value(&settings::STORE_AT)?, StoreLocation::Redis(_)) {
        return Err(Problem::Store(format!(
            "a store at Redis needs a secret that all replicas share: set {}, or {} to a file, with \
             {LEAST} or more random characters (openssl rand -hex 32)",
            direct.long_env(),
            file.key
        )));
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::super::Config;
    use super::super::locations::RedisUrl;
    use super::*;
    use longhaul_core::policy::{CompactionSettings, Policy};
    use longhaul_core::units::tokens::Tokens;

    const SECRET: &str = "hunter2-hunter2-hunter2-hunter2-";

    fn check(changes: &[(&str, &str)]) -> Result<StoreConfig, String> {
        Config::default_with(changes.iter().copied())
            .map(|config| config.store)
            .map_err(|problems| problems[0].to_string())
    }

    /// Checks that the problem contains `expect` and no secret.
    fn check_refused(changes: &[(&str, &str)], expect: &str) {
        let problem = check(changes).unwrap_err();
        assert!(problem.contains(expect), "{problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }

    #[test]
    fn documented_record_size_matches_the_largest_record() {
        let policy = Policy::new(&CompactionSettings::default(), Tokens::new(200_000));
        let nominal = policy.budgets.nominal();
        let text = nominal + policy.thresholds.requests_budget(nominal);
        // A model's prose may take three times its budget: in the text, verbatim, and in the prose
        // of the previous record.
        let words = policy.budgets.prose.to_chars() * 8;
        let most = (text.to_chars() + words) >> 10;
        assert_eq!(most, 248);
        assert!(settings::STORE_MEMORY.doc().contains("about 250 KiB"));
        let room = check(&[]).unwrap().memory_bytes >> 10;
        assert_eq!(room / 250, 262);
        assert!(settings::STORE_MEMORY.doc().contains("room for 260"));
    }

    #[test]
    fn store_location_is_memory_a_file_or_a_redis_url() {
        let at =
            |at: &str| check(&[("store.at", at), ("store.scope_secret", SECRET)]).unwrap().location;
        assert_eq!(at("Memory"), StoreLocation::Memory);
        assert_eq!(at("file:a/b.db"), StoreLocation::File("a/b.db".into()));
        for url in ["redis://h:1/2", "rediss://:hunter2@h", "valkey+cluster://h:1,i:2"] {
            assert_eq!(at(url), StoreLocation::Redis(RedisUrl(url.into())));
        }
        for wrong in ["", "file:", "redis:/:hunter2@h", "http://:hunter2@h", "hunter2"] {
            check_refused(&[("store.at", wrong)], "expected memory, file:PATH");
        }
        let home = ("store.at", "file:~/hunter2.db");
        check_refused(&[home], "begins with ~/");
    }

    #[test]
    fn a_password_and_a_secret_are_never_shown() {
        for url in [
            "redis://:hunter2@host:6379/0",
            "rediss://user:hunter2@host:6379/0",
            "redis://:hunter2@hunter2/@host:6379/0",
            "redis://:hunter2?hunter2@host:6379/0?protocol=hunter2",
            "redis+unix:///host:6379/0?pass=hunter2@hunter2",
        ] {
            let store = check(&[("store.at", url), ("store.scope_secret", SECRET)]).unwrap();
            let StoreLocation::Redis(kept) = &store.location else {
                panic!("{store:?}");
            };
            assert_eq!(kept.expose(), url);
            let shown = [format!("{store:?}"), kept.to_string()];
            for shown in shown {
                assert!(shown.contains("host:6379/0"), "{shown}");
                assert!(!shown.contains("hunter2"), "{shown}");
            }
        }
    }

    #[test]
    fn redis_store_requires_a_long_scope_secret() {
        let redis = ("store.at", "redis://h");
        check_refused(&[redis], "openssl rand");
        check_refused(&[redis, ("store.scope_secret", "hunter2")], "32 or more");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let file = ("store.scope_secret_file", path.to_str().unwrap());
        check_refused(&[redis, file], "secret: ");
        std::fs::write(&path, "hunter2").unwrap();
        check_refused(&[redis, file], "32 or more");
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        let secret = check(&[redis, file]).unwrap().scope_secret.unwrap();
        assert_eq!(secret.expose(), SECRET);
        check_refused(&[file, ("store.scope_secret", SECRET)], "one of the two");
    }

    #[test]
    fn caller_identity_by_header_requires_a_trusted_header() {
        let by = |changes: &[_]| check(changes).map(|store| store.scope);
        assert_eq!(by(&[]), Ok(CallerIdentity::Credentials));
        let header = ("store.scope", "header:X-User");
        check_refused(&[header], "any client could send");
        check_refused(&[header, ("store.trusted_headers", "x-users")], "x-user,");
        let trusted = ("store.trusted_headers", "x-team, x-USER");
        let expect = CallerIdentity::Header(HeaderName::from_static("x-user"));
        assert_eq!(by(&[header, trusted]), Ok(expect));
        for wrong in ["header:", "header:a b", "x-user"] {
            check_refused(&[("store.scope", wrong)], "expected credentials or header:NAME");
        }
    }
}
