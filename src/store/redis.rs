//! Entries at a Redis or Valkey server, or a Cluster of them, that replicas share.
//!
//! Each entry is one hash, written by one script and read by one command, so no reader sees half of
//! a write. A malformed entry counts as absent.

pub(crate) mod client;
pub(crate) mod connection;
mod dialer;
mod entry;

use std::sync::OnceLock;
use std::time::Duration;

use redis::{Pipeline, Value};

use super::Kept;
use crate::config::{RedisUrl, StoreConfig};
use crate::error::Problem;
use crate::store::durable::{
    Answer, EntryWrite, LeaseAction, LeaseToken, ListedEntry, StoredEntry, WriteResult,
};
use crate::wall_clock;
use client::{CommandRoute, RedisClient};
use connection::{MALFORMED_ANSWER, ReconnectingConnection, unavailable};
use longhaul_core::units::scope::{RecordKey, ScopeTag};

/// Number of keys in one page of a scan: few enough that the server serves others in between. The bound
/// on a batch of replies has room for their entries.
const SCAN_COUNT: usize = 64;

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
    pub(super) fn new(url: &RedisUrl, config: &StoreConfig, kept: Kept) -> Result<Self, Problem> {
        let (bytes, ttl) = kept.bounds(config);
        let redis = Self {
            client: client(url, config)?,
            connection: OnceLock::new(),
            ttl,
            scope_bytes: (kept == Kept::Originals).then_some(bytes),
        };
        if tokio::runtime::Handle::try_current().is_ok() {
            redis.connection();
        }
        Ok(redis)
    }

    /// Checks that the settings name a server, without connecting to it.
    pub(super) fn check(url: &RedisUrl, config: &StoreConfig) -> Result<(), Problem> {
        client(url, config).map(drop)
    }

    /// Waits for the first connection, for a bounded time.
    pub(super) async fn wait_until_ready(&self) -> Answer<()> {
        self.connection().wait_until_ready().await
    }

    pub(super) async fn read(&self, keys: &[RecordKey]) -> Answer<Vec<Option<StoredEntry>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut commands = Pipeline::with_capacity(keys.len());
        for key in keys {
            let name = entry::redis_key(*key);
            commands.add_command(entry::read_command(&name, Some(self.ttl_ms())));
        }
        let answers = self.connection().send_to_key_owner(&commands).await?;
        let read = |answer: Value| extract(answer).map(entry::parse_entry);
        answers.into_iter().map(read).collect()
    }

    pub(super) async fn write(&self, writes: &[EntryWrite]) -> Answer<Vec<WriteResult>> {
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
            if self.scope_bytes.is_some()
                && let Some(bounded) = answers.pop()
            {
                extract(bounded)?;
            }
            for ((at, write), answer) in of_scope().zip(answers) {
                let answer = extract(answer)?;
                let winner = entry::parse_write_result(write, answer).ok_or(MALFORMED_ANSWER)?;
                if let Some(place) = winners.get_mut(at) {
                    *place = winner;
                }
            }
        }
        Ok(winners)
    }

    pub(super) async fn for_each_entry(
        &self,
        scope: Option<ScopeTag>,
        show: &mut (dyn FnMut(ListedEntry) + Send),
    ) -> Answer<()> {
        let read = |commands: &mut Pipeline, name: &str| {
            commands.add_command(entry::read_command(name, None));
            commands.cmd("PTTL").arg(name);
        };
        let show_page = |keys: Vec<RecordKey>, answers: Vec<Value>| {
            let mut answers = answers.into_iter();
            for key in keys {
                let entry = answers.next().and_then(entry::parse_entry);
                let left = answers.next();
                if let Some(entry) = entry {
                    let idle = left.and_then(|left| self.idle_time(&left));
                    show(ListedEntry { key, entry, idle });
                }
            }
            Ok(())
        };
        self.scan(scope, read, show_page).await
    }

    pub(super) async fn purge(&self, scope: Option<ScopeTag>) -> Answer<u64> {
        let mut purged = 0;
        let unlink = |commands: &mut Pipeline, name: &str| _ = commands.cmd("UNLINK").arg(name);
        let count = |_, answers: Vec<Value>| {
            for answer in answers {
                purged += u64::from(extract(answer)? == Value::Int(1));
            }
            Ok(())
        };
        self.scan(scope, unlink, count).await?;
        Ok(purged)
    }

    /// Sends the commands that `build` adds for the name of each entry, page by page. Passes the keys
    /// of each page and the answers to `take`.
    async fn scan(
        &self,
        scope: Option<ScopeTag>,
        build: impl Fn(&mut Pipeline, &str),
        mut take: impl FnMut(Vec<RecordKey>, Vec<Value>) -> Answer<()>,
    ) -> Answer<()> {
        let (connection, pattern) = (self.connection(), entry::scan_pattern(scope));
        for node in connection.nodes().await? {
            let mut cursor = 0;
            loop {
                let mut command = redis::cmd("SCAN");
                command.arg(cursor).arg("MATCH").arg(&pattern);
                command.arg("COUNT").arg(SCAN_COUNT).arg("TYPE").arg("hash");
                let page = connection.send_one(&node, command).await?;
                let (next, names): (u64, Vec<Vec<u8>>) =
                    redis::from_redis_value(page).map_err(|_| MALFORMED_ANSWER)?;
                let (mut keys, mut commands) = (Vec::new(), Pipeline::new());
                for name in names.into_iter().flat_map(String::from_utf8) {
                    if let Some(key) = entry::parse_key(&name) {
                        build(&mut commands, &name);
                        keys.push(key);
                    }
                }
                if !keys.is_empty() {
                    take(keys, connection.send_to(&node, &commands).await?)?;
                }
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        Ok(())
    }

    /// Computes how long an entry is idle from its remaining time to live.
    fn idle_time(&self, left: &Value) -> Option<Duration> {
        let Value::Int(left) = left else {
            return None;
        };
        let left = Duration::from_millis(u64::try_from(*left).ok()?);
        self.ttl.checked_sub(left)
    }

    /// Runs the script of an action on a lease. Returns whether the script succeeded.
    pub(super) async fn lease(
        &self,
        action: LeaseAction,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Answer<bool> {
        let script = match action {
            LeaseAction::Acquire => include_str!("redis/lease_acquire.lua"),
            LeaseAction::Release => include_str!("redis/lease_release.lua"),
            LeaseAction::Renew => include_str!("redis/lease_renew.lua"),
        };
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1).arg(entry::lease_redis_key(key));
        command.arg(format!("{:032x}", token.0)).arg(millis(ttl));
        let answer = self.connection().send_one(&CommandRoute::KeyOwner, command);
        let Value::Int(found) = answer.await? else {
            return Err(MALFORMED_ANSWER);
        };
        Ok(found == 1)
    }

    fn ttl_ms(&self) -> u64 {
        millis(self.ttl)
    }

    fn connection(&self) -> &ReconnectingConnection {
        self.connection.get_or_init(|| ReconnectingConnection::start(self.client.clone()))
    }
}

fn extract(answer: Value) -> Answer<Value> {
    answer.extract_error().map_err(|error| unavailable(&error))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn client(url: &RedisUrl, config: &StoreConfig) -> Result<RedisClient, Problem> {
    let client = RedisClient::from_url(url.expose(), config);
    client.map_err(|reason| Problem::Setting(format!("store.at from {url}: {reason}")))
}

#[cfg(test)]
mod tests;
