//! Entries at a Redis or Valkey server, or a Cluster of them, that replicas share.
//!
//! Each entry is one hash that is written by one script and read by one command, so nobody sees half
//! of a write. What the server says that makes no sense is what is not there.

mod entry;
mod line;
mod server;
mod tls;
mod why;

use std::sync::OnceLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::far::{Entry, Lease, LeaseToken, Listed, Renewed, Unavailable, Winner, Write};
use crate::config::{RedisUrl, StoreConfig};
use crate::error::Problem;
use crate::rewrite::chain::{RecordKey, ScopeTag};
use line::Line;
use server::{Node, Server};
use why::{GARBLED, why};

/// How many keys are looked through at a time where all are: few enough that the server serves others
/// in between.
const PAGE: usize = 256;

/// Takes a lease, or makes ours end later: an answer may have been lost on its way.
const LEASE: &str = "\
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1";
/// Makes a lease end later that is ours still.
const RENEW: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
/// Ends a lease that is ours still.
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])";

/// Entries at a server. Connects within a runtime at once, else when it is first asked, and again by
/// itself.
pub(crate) struct Redis {
    server: Server,
    line: OnceLock<Line>,
    /// How long an entry is kept from its last use.
    ttl: Duration,
}

impl Redis {
    /// The server at `url`.
    ///
    /// # Errors
    /// What is wrong with the settings, without the password.
    pub(crate) fn new(url: &RedisUrl, config: &StoreConfig) -> Result<Self, Problem> {
        let redis = Self {
            server: server(url, config)?,
            line: OnceLock::new(),
            ttl: config.ttl,
        };
        if tokio::runtime::Handle::try_current().is_ok() {
            redis.line();
        }
        Ok(redis)
    }

    /// Whether the settings name a server; connects to nothing.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn check(url: &RedisUrl, config: &StoreConfig) -> Result<(), Problem> {
        server(url, config).map(drop)
    }

    /// Waits for the first connection, for a bounded time.
    pub(super) async fn begun(&self) -> Result<(), Unavailable> {
        self.line().begun().await
    }

    pub(super) async fn read(&self, keys: &[RecordKey]) -> Result<Vec<Option<Entry>>, Unavailable> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut commands = Pipeline::with_capacity(keys.len() * 2);
        for key in keys {
            let name = entry::name(*key);
            commands.cmd("HGETALL").arg(&name);
            commands.cmd("PEXPIRE").arg(&name).arg(self.ttl_ms());
        }
        let answers = self.line().ask(&commands).await?;
        if answers.len() != commands.len() {
            return Err(GARBLED);
        }
        let entries = answers.into_iter().step_by(2);
        let read = |answer| {
            // What is no hash is no entry. Any other error says nothing of what is there.
            if let Value::ServerError(error) = &answer
                && error.code() != "WRONGTYPE"
            {
                return Err(why(&error.clone().into()));
            }
            Ok(entry::entry(answer))
        };
        entries.map(read).collect()
    }

    pub(super) async fn write(&self, writes: &[Write]) -> Result<Vec<Winner>, Unavailable> {
        let mut winners = vec![Winner::default(); writes.len()];
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
                commands.add_command(entry::command(write, self.ttl_ms()));
            }
            let answers = self.line().ask(&commands).await?;
            if answers.len() != commands.len() {
                return Err(GARBLED);
            }
            for ((at, write), answer) in of_scope().zip(answers) {
                let answer = answer.extract_error().map_err(|error| why(&error))?;
                let winner = entry::winner(write, answer).ok_or(GARBLED)?;
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
    ) -> Result<Lease, Unavailable> {
        let held = self.on_lease(LEASE, key, token, ttl).await?;
        Ok(if held { Lease::Held } else { Lease::Taken })
    }

    pub(super) async fn renew(
        &self,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<Renewed, Unavailable> {
        let held = self.on_lease(RENEW, key, token, ttl).await?;
        Ok(if held { Renewed::Ours } else { Renewed::Lost })
    }

    pub(super) async fn release(
        &self,
        key: RecordKey,
        token: LeaseToken,
    ) -> Result<(), Unavailable> {
        let released = self.on_lease(RELEASE, key, token, Duration::ZERO).await;
        released.map(drop)
    }

    pub(super) async fn each(
        &self,
        scope: Option<ScopeTag>,
        show: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<(), Unavailable> {
        for node in self.line().nodes().await? {
            let mut scan = Scan::of(scope);
            while let Some(page) = scan.next(self.line(), &node).await? {
                let mut commands = Pipeline::new();
                for (name, _) in &page {
                    commands.cmd("HGETALL").arg(name);
                    commands.cmd("PTTL").arg(name);
                }
                let mut answers = self.ask_at(&node, &commands).await?.into_iter();
                for (_, key) in page {
                    let entry = answers.next().and_then(entry::entry);
                    let left = answers.next();
                    if let Some(entry) = entry {
                        let idle = left.and_then(|left| self.idle(&left));
                        show(Listed { key, entry, idle });
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) async fn purge(&self, scope: Option<ScopeTag>) -> Result<u64, Unavailable> {
        let mut purged = 0;
        for node in self.line().nodes().await? {
            let mut scan = Scan::of(scope);
            while let Some(page) = scan.next(self.line(), &node).await? {
                let mut commands = Pipeline::new();
                for (name, _) in &page {
                    commands.cmd("UNLINK").arg(name);
                }
                for answer in self.ask_at(&node, &commands).await? {
                    let answer = answer.extract_error().map_err(|error| why(&error))?;
                    purged += u64::from(answer == Value::Int(1));
                }
            }
        }
        Ok(purged)
    }

    /// Sends commands that may be none.
    async fn ask_at(&self, node: &Node, commands: &Pipeline) -> Result<Vec<Value>, Unavailable> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.line().ask_at(node, commands).await
    }

    /// What of an entry's time is over, from what is left of it.
    fn idle(&self, left: &Value) -> Option<Duration> {
        let Value::Int(left) = left else {
            return None;
        };
        let left = Duration::from_millis(u64::try_from(*left).ok()?);
        self.ttl.checked_sub(left)
    }

    /// Runs a script on a lease, and says whether it found what it sought.
    async fn on_lease(
        &self,
        script: &str,
        key: RecordKey,
        token: LeaseToken,
        ttl: Duration,
    ) -> Result<bool, Unavailable> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1).arg(entry::lease_name(key));
        command.arg(format!("{:032x}", token.0)).arg(ms(ttl));
        let Value::Int(found) = only(self.line().ask(&alone(command)).await?)? else {
            return Err(GARBLED);
        };
        Ok(found == 1)
    }

    fn ttl_ms(&self) -> u64 {
        ms(self.ttl)
    }

    fn line(&self) -> &Line {
        self.line.get_or_init(|| Line::to(self.server.clone()))
    }
}

/// One node's entries, page by page.
struct Scan {
    pattern: String,
    /// Where the next page begins; `None` behind the last.
    cursor: Option<u64>,
}

impl Scan {
    fn of(scope: Option<ScopeTag>) -> Self {
        Self {
            pattern: entry::pattern(scope),
            cursor: Some(0),
        }
    }

    /// The names of some more entries, with their keys; none behind the last.
    async fn next(
        &mut self,
        line: &Line,
        node: &Node,
    ) -> Result<Option<Vec<(String, RecordKey)>>, Unavailable> {
        let Some(cursor) = self.cursor else {
            return Ok(None);
        };
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg(&self.pattern);
        command.arg("COUNT").arg(PAGE).arg("TYPE").arg("hash");
        let answer = only(line.ask_at(node, &alone(command)).await?)?;
        let (next, names): (u64, Vec<Vec<u8>>) =
            redis::from_redis_value(answer).map_err(|_| GARBLED)?;
        self.cursor = (next != 0).then_some(next);
        let keyed = |name: Vec<u8>| {
            let name = String::from_utf8(name).ok()?;
            entry::key(&name).map(|key| (name, key))
        };
        Ok(Some(names.into_iter().filter_map(keyed).collect()))
    }
}

fn alone(command: Cmd) -> Pipeline {
    let mut commands = Pipeline::with_capacity(1);
    commands.add_command(command);
    commands
}

/// The answer to one command.
fn only(answers: Vec<Value>) -> Result<Value, Unavailable> {
    let answer = answers.into_iter().next().ok_or(GARBLED)?;
    answer.extract_error().map_err(|error| why(&error))
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn server(url: &RedisUrl, config: &StoreConfig) -> Result<Server, Problem> {
    Server::at(url.expose(), config).map_err(|reason| Problem::Value {
        key: "store.at".into(),
        place: url.to_string(),
        reason,
    })
}

#[cfg(test)]
mod tests;
