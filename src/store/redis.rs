//! Entries at a Redis or Valkey server, or a Cluster of them, that replicas share.
//!
//! Each entry is one hash, written by one script and read by one command, so no reader sees half of
//! a write. A malformed entry counts as absent.

pub(crate) mod client;
pub(crate) mod connection;
mod entry;
pub(crate) mod error_kind;
mod tls;

use std::sync::OnceLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use crate::config::{RedisUrl, StoreConfig};
use crate::error::Problem;
use crate::store::durable::{
    EntryWrite, LeaseAttempt, LeaseRenewal, LeaseToken, ListedEntry, StoredEntry, Unavailable,
    WriteResult,
};
use crate::wall_clock;
use client::{CommandRoute, RedisClient};
use connection::ReconnectingConnection;
use error_kind::{MALFORMED_ANSWER, unavailable};
use longhaul_core::units::scope::{RecordKey, ScopeTag};

/// Number of keys in one page of a scan: few enough that the server serves others in between.
const SCAN_COUNT: usize = 256;

/// Script that takes a lease, or extends it if the same token holds it: an answer may have been
/// lost.
const LEASE_SCRIPT: &str = "\
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1";
/// Script that extends a lease, if the token still holds it.
const RENEW_SCRIPT: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
/// Script that ends a lease, if the token still holds it.
const RELEASE_SCRIPT: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])";

/// Store at a server. Connects at once within a runtime, otherwise at the first call. Reconnects by
/// itself.
pub(crate) struct RedisStore {
    client: RedisClient,
    connection: OnceLock<ReconnectingConnection>,
    /// Time that an entry is kept after its last use.
    ttl: Duration,
    /// Bytes that the entries of each scope may take. `None` leaves the bound to the server.
    scope_bytes: Option<u64>,
}

impl RedisStore {
    /// Creates the store for the server at `url`. Fails if the settings are invalid. The message
    /// never contains the password.
    pub(crate) fn new(url: &RedisUrl, config: &StoreConfig) -> Result<Self, Problem> {
        let redis = Self {
            client: client(url, config)?,
            connection: OnceLock::new(),
            ttl: config.ttl,
            scope_bytes: None,
        };
        if tokio::runtime::Handle::try_current().is_ok() {
            redis.connection();
        }
        Ok(redis)
    }

    /// Creates a store of originals, with a connection and a bound of its own.
    pub(super) fn of_originals(url: &RedisUrl, config: &StoreConfig) -> Result<Self, Problem> {
        Ok(Self {
            ttl: config.recall_ttl,
            scope_bytes: Some(config.recall_max_bytes),
            ..Self::new(url, config)?
        })
    }

    /// Checks that the settings name a server, without connecting to it.
    pub(super) fn check(url: &RedisUrl, config: &StoreConfig) -> Result<(), Problem> {
        client(url, config).map(drop)
    }

    /// Waits for the first connection, for a bounded time.
    pub(super) async fn wait_until_ready(&self) -> Result<(), Unavailable> {
        self.connection().wait_until_ready().await
    }

    pub(super) async fn read(
        &self,
        keys: &[RecordKey],
    ) -> Result<Vec<Option<StoredEntry>>, Unavailable> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut commands = Pipeline::with_capacity(keys.len());
        for key in keys {
            let name = entry::redis_key(*key);
            commands.add_command(entry::read_command(&name, Some(self.ttl_ms())));
        }
        let answers = self.connection().send_to_key_owner(&commands).await?;
        if answers.len() != commands.len() {
            return Err(MALFORMED_ANSWER);
        }
        let read = |answer: Value| {
            let answer = answer.extract_error();
            answer
                .map(entry::parse_entry)
                .map_err(|error| unavailable(&error))
        };
        answers.into_iter().map(read).collect()
    }

    pub(super) async fn write(
        &self,
        writes: &[EntryWrite],
    ) -> Result<Vec<WriteResult>, Unavailable> {
        let mut winners = vec![WriteResult::default(); writes.len()];
        let mut scopes: Vec<ScopeTag> = writes.iter().map(|write| write.key.scope()).collect();
        scopes.sort_unstable();
        scopes.dedup();
        for scope in scopes {
            let of_scope = || {
                let numbered = writes.iter().enumerate();
                numbered.filter(|(_, write)| write.key.scope() == scope)
            };
            let mut commands = Pipeline::new();
            for (_, write) in of_scope() {
                commands.add_command(entry::write_command(write, self.ttl_ms()));
            }
            if let Some(most) = self.scope_bytes {
                let writes = of_scope().map(|(_, write)| write);
                let now_ms = wall_clock::unix_seconds().saturating_mul(1_000);
                let numbers = (now_ms, self.ttl_ms(), most);
                commands.add_command(entry::bound_command(scope, writes, numbers));
            }
            let mut answers = self.connection().send_to_key_owner(&commands).await?;
            if answers.len() != commands.len() {
                return Err(MALFORMED_ANSWER);
            }
            if self.scope_bytes.is_some()
                && let Some(bounded) = answers.pop()
            {
                bounded
                    .extract_error()
                    .map_err(|error| unavailable(&error))?;
            }
            for ((at, write), answer) in of_scope().zip(answers) {
                let answer = answer
                    .extract_error()
                    .map_err(|error| unavailable(&error))?;
                let winner = entry::parse_write_result(write, answer).ok_or(MALFORMED_ANSWER)?;
                if let Some(place) = winners.get_mut(at) {
                    *place = winner;
                }
            }
        }
        Ok(winners)
    }

    pub(super) async fn lease(
        &self,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<LeaseAttempt, Unavailable> {
        let held = self.run_lease_script(LEASE_SCRIPT, key, token, ttl).await?;
        Ok(if held {
            LeaseAttempt::Acquired
        } else {
            LeaseAttempt::Taken
        })
    }

    pub(super) async fn renew(
        &self,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<LeaseRenewal, Unavailable> {
        let held = self.run_lease_script(RENEW_SCRIPT, key, token, ttl).await?;
        Ok(if held {
            LeaseRenewal::Extended
        } else {
            LeaseRenewal::Lost
        })
    }

    pub(super) async fn release(
        &self,
        key: RecordKey,
        token: LeaseToken,
    ) -> Result<(), Unavailable> {
        let released = self
            .run_lease_script(RELEASE_SCRIPT, key, token, Duration::ZERO)
            .await;
        released.map(drop)
    }

    pub(super) async fn for_each_entry(
        &self,
        scope: Option<ScopeTag>,
        show: &mut (dyn FnMut(ListedEntry) + Send),
    ) -> Result<(), Unavailable> {
        for node in self.connection().nodes().await? {
            let mut scan = Scan::new(scope);
            while let Some(page) = scan.next_page(self.connection(), &node).await? {
                let mut commands = Pipeline::new();
                for (name, _) in &page {
                    commands.add_command(entry::read_command(name, None));
                    commands.cmd("PTTL").arg(name);
                }
                let mut answers = self.send_if_any(&node, &commands).await?.into_iter();
                for (_, key) in page {
                    let entry = answers.next().and_then(entry::parse_entry);
                    let left = answers.next();
                    if let Some(entry) = entry {
                        let idle = left.and_then(|left| self.idle_time(&left));
                        show(ListedEntry { key, entry, idle });
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) async fn purge(&self, scope: Option<ScopeTag>) -> Result<u64, Unavailable> {
        let mut purged = 0;
        for node in self.connection().nodes().await? {
            let mut scan = Scan::new(scope);
            while let Some(page) = scan.next_page(self.connection(), &node).await? {
                let mut commands = Pipeline::new();
                for (name, _) in &page {
                    commands.cmd("UNLINK").arg(name);
                }
                for answer in self.send_if_any(&node, &commands).await? {
                    let answer = answer
                        .extract_error()
                        .map_err(|error| unavailable(&error))?;
                    purged += u64::from(answer == Value::Int(1));
                }
            }
        }
        Ok(purged)
    }

    async fn send_if_any(
        &self,
        node: &CommandRoute,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Unavailable> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.connection().send_to(node, commands).await
    }

    /// Computes how long an entry is idle from its remaining time to live.
    fn idle_time(&self, left: &Value) -> Option<Duration> {
        let Value::Int(left) = left else {
            return None;
        };
        let left = Duration::from_millis(u64::try_from(*left).ok()?);
        self.ttl.checked_sub(left)
    }

    /// Runs a script on a lease. Returns whether it succeeded.
    async fn run_lease_script(
        &self,
        script: &str,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<bool, Unavailable> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1).arg(entry::lease_redis_key(key));
        command.arg(format!("{:032x}", token.0)).arg(millis(ttl));
        let Value::Int(found) = single_answer(
            self.connection()
                .send_to_key_owner(&single_command(command))
                .await?,
        )?
        else {
            return Err(MALFORMED_ANSWER);
        };
        Ok(found == 1)
    }

    fn ttl_ms(&self) -> u64 {
        millis(self.ttl)
    }

    fn connection(&self) -> &ReconnectingConnection {
        self.connection
            .get_or_init(|| ReconnectingConnection::start(self.client.clone()))
    }
}

/// Scan of one node's entries, page by page.
struct Scan {
    pattern: String,
    /// Start of the next page; `None` after the last.
    cursor: Option<u64>,
}

impl Scan {
    fn new(scope: Option<ScopeTag>) -> Self {
        Self {
            pattern: entry::scan_pattern(scope),
            cursor: Some(0),
        }
    }

    /// Returns the names of some more entries with their keys, or `None` after the last page.
    async fn next_page(
        &mut self,
        line: &ReconnectingConnection,
        node: &CommandRoute,
    ) -> Result<Option<Vec<(String, RecordKey)>>, Unavailable> {
        let Some(cursor) = self.cursor else {
            return Ok(None);
        };
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg(&self.pattern);
        command.arg("COUNT").arg(SCAN_COUNT).arg("TYPE").arg("hash");
        let answer = single_answer(line.send_to(node, &single_command(command)).await?)?;
        let (next, names): (u64, Vec<Vec<u8>>) =
            redis::from_redis_value(answer).map_err(|_| MALFORMED_ANSWER)?;
        self.cursor = (next != 0).then_some(next);
        let keyed = |name: Vec<u8>| {
            let name = String::from_utf8(name).ok()?;
            entry::parse_key(&name).map(|key| (name, key))
        };
        Ok(Some(names.into_iter().filter_map(keyed).collect()))
    }
}

fn single_command(command: Cmd) -> Pipeline {
    let mut commands = Pipeline::with_capacity(1);
    commands.add_command(command);
    commands
}

/// Returns the answer to a single command.
fn single_answer(answers: Vec<Value>) -> Result<Value, Unavailable> {
    let answer = answers.into_iter().next().ok_or(MALFORMED_ANSWER)?;
    answer.extract_error().map_err(|error| unavailable(&error))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn client(url: &RedisUrl, config: &StoreConfig) -> Result<RedisClient, Problem> {
    RedisClient::from_url(url.expose(), config).map_err(|reason| Problem::InvalidValue {
        key: "store.at".into(),
        place: url.to_string(),
        reason,
    })
}

#[cfg(test)]
mod tests;
