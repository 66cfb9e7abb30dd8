//! A connection that a separate task keeps up.
//!
//! Callers use the connection that exists. So a request never waits for a server that is known to
//! be unavailable, and connecting does not depend on how long a request waits.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::store::durable::{Answer, Unavailable};
use crate::store::redis::client::{CommandRoute, RedisClient, RedisConnection};

/// Timeout for a complete connection. A Cluster's consists of many.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the first connection at start-up.
const FIRST_CONNECTION_WAIT: Duration = Duration::from_secs(2);
/// Timeout of a ping, after which the connection counts as dead.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after the first failed attempt to connect; each later pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Longest pause. A server that is back goes unused for at most this long.
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// A connection that is made again whenever it is lost, until this is dropped.
pub(super) struct ReconnectingConnection {
    state: watch::Receiver<ConnectionState>,
    check_requests: Arc<Notify>,
    /// Epoch of the latest connection that led to a read-only replica.
    replica_epoch: Arc<AtomicU64>,
    /// The task that keeps up the connection; ends when this is dropped.
    _keeper: JoinSet<()>,
}

#[derive(Clone)]
enum ConnectionState {
    /// The first attempt, or the first one after a connection was lost, has no result yet.
    Connecting,
    /// The last attempt failed; the next one follows by itself.
    Down(Unavailable),
    /// The connection and its epoch: how often a connection was found to work so far.
    Up(RedisConnection, u64),
}

impl ReconnectingConnection {
    /// Starts to connect. Must be called within a runtime.
    pub(super) fn start(server: RedisClient) -> Self {
        let (state_sender, state) = watch::channel(ConnectionState::Connecting);
        let (check_requests, replica_epoch) = <(Arc<Notify>, Arc<AtomicU64>)>::default();
        let keeper = ConnectionKeeper {
            server,
            state_sender,
            check_requests: Arc::clone(&check_requests),
            replica_epoch: Arc::clone(&replica_epoch),
            epoch: 0,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper.run());
        Self { state, check_requests, replica_epoch, _keeper: tasks }
    }

    /// Waits until there is a connection, an attempt has failed, or the longest wait is over.
    pub(super) async fn wait_until_ready(&self) -> Answer<()> {
        let mut state = self.state.clone();
        let begun = state.wait_for(|state| !matches!(state, ConnectionState::Connecting));
        let Ok(Ok(state)) = timeout(FIRST_CONNECTION_WAIT, begun).await else {
            return Err(NO_ANSWER);
        };
        match &*state {
            ConnectionState::Connecting => Err(NO_ANSWER),
            ConnectionState::Down(why) => Err(*why),
            ConnectionState::Up(..) => Ok(()),
        }
    }

    /// Sends commands in one batch to the node that owns their keys, which must all be of one
    /// scope. Returns an answer for each. If the connection breaks, commands may be sent twice.
    pub(super) async fn send_to_key_owner(&self, commands: &Pipeline) -> Answer<Vec<Value>> {
        let answers = self.send_to(&CommandRoute::KeyOwner, commands).await?;
        if answers.len() == commands.len() { Ok(answers) } else { Err(MALFORMED_ANSWER) }
    }

    /// Sends one command to one node. Fails if the answer is an error.
    pub(super) async fn send_one(&self, node: &CommandRoute, command: Cmd) -> Answer<Value> {
        let mut commands = Pipeline::with_capacity(1);
        commands.add_command(command);
        let answer = self.send_to(node, &commands).await?.into_iter().next();
        let answer = answer.ok_or(MALFORMED_ANSWER)?.extract_error();
        answer.map_err(|error| unavailable(&error))
    }

    /// Sends commands in one batch to one node.
    ///
    /// A connection that was idle for a while may have ended unnoticed, for instance because the
    /// server restarted. A call that finds this out is sent again on the next connection.
    pub(super) async fn send_to(
        &self,
        node: &CommandRoute,
        commands: &Pipeline,
    ) -> Answer<Vec<Value>> {
        let (link, epoch) = self.connection_after(0).await?;
        match self.send_on((link, epoch), node, commands).await {
            Err(error) if error.is_unrecoverable_error() => {
                let next = self.connection_after(epoch).await?;
                self.send_on(next, node, commands).await
            }
            answer => answer,
        }
        .map_err(|error| unavailable(&error))
    }

    /// Sends commands on this connection. Has it replaced if it leads to a read-only replica: a
    /// former primary keeps its connections, while its name leads to another server already.
    async fn send_on(
        &self,
        (mut link, epoch): (RedisConnection, u64),
        node: &CommandRoute,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, RedisError> {
        let answers = self.check_on_failure(link.send(node, commands)).await?;
        if answers.iter().any(is_replica_answer) {
            self.replica_epoch.fetch_max(epoch, Ordering::Relaxed);
            self.check_requests.notify_one();
        }
        Ok(answers)
    }

    pub(super) async fn nodes(&self) -> Answer<Vec<CommandRoute>> {
        let (mut link, _) = self.connection_after(0).await?;
        let nodes = self.check_on_failure(link.nodes()).await;
        nodes.map_err(|error| unavailable(&error))
    }

    async fn connection_after(&self, epoch: u64) -> Answer<(RedisConnection, u64)> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| match state {
            ConnectionState::Connecting => false,
            ConnectionState::Down(_) => true,
            ConnectionState::Up(_, now) => *now > epoch,
        });
        match settled.await.as_deref() {
            Ok(ConnectionState::Up(link, epoch)) => Ok((link.clone(), *epoch)),
            Ok(ConnectionState::Down(why)) => Err(*why),
            // The keeper lives as long as `self`.
            Ok(ConnectionState::Connecting) | Err(_) => Err(NO_ANSWER),
        }
    }

    /// Has the connection checked if `asking` fails or is dropped.
    async fn check_on_failure<T>(
        &self,
        asking: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        let mut doubt = HealthCheckGuard(Some(&self.check_requests));
        let answer = asking.await;
        if answer.is_ok() {
            doubt.0 = None;
        }
        answer
    }
}

/// Guard that requests a check of the connection on drop, unless disarmed.
struct HealthCheckGuard<'l>(Option<&'l Notify>);

impl Drop for HealthCheckGuard<'_> {
    fn drop(&mut self) {
        if let Some(doubts) = self.0 {
            doubts.notify_one();
        }
    }
}

/// Whether the answer shows that the server is a replica of another.
fn is_replica_answer(answer: &Value) -> bool {
    let Value::ServerError(error) = answer else {
        return false;
    };
    matches!(error.code(), "READONLY" | "MASTERDOWN")
}

/// Task that makes the connection, and makes it again whenever it is lost.
struct ConnectionKeeper {
    server: RedisClient,
    state_sender: watch::Sender<ConnectionState>,
    check_requests: Arc<Notify>,
    replica_epoch: Arc<AtomicU64>,
    /// Number of times that a connection was found to work.
    epoch: u64,
}

impl ConnectionKeeper {
    async fn run(mut self) {
        let mut pause = PAUSE_FIRST;
        loop {
            let held = match timeout(CONNECT_TIMEOUT, self.server.connect()).await {
                Ok(Ok(link)) => self.publish(link).await,
                Ok(Err(error)) => self.publish_failure(unavailable(&error)),
                Err(_) => self.publish_failure(NO_ANSWER),
            };
            if held > PAUSE_LONGEST {
                pause = PAUSE_FIRST;
                continue;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }

    /// Publishes a connection until it is lost, or leads to a replica. Returns how long it lasted.
    async fn publish(&mut self, mut link: RedisConnection) -> Duration {
        let began = Instant::now();
        let first = self.epoch + 1;
        loop {
            self.epoch += 1;
            self.state_sender.send_replace(ConnectionState::Up(link.clone(), self.epoch));
            self.check_requests.notified().await;
            // The connection stays in use until there is another: a replica can be read.
            if self.replica_epoch.load(Ordering::Relaxed) >= first {
                break;
            }
            if !matches!(timeout(PING_TIMEOUT, link.ping()).await, Ok(Ok(()))) {
                self.state_sender.send_replace(ConnectionState::Connecting);
                break;
            }
        }
        began.elapsed()
    }

    /// Publishes that connecting failed. Returns zero, the time that the connection lasted.
    fn publish_failure(&self, why: Unavailable) -> Duration {
        self.state_sender.send_replace(ConnectionState::Down(why));
        Duration::ZERO
    }
}

pub(super) const NO_ANSWER: Unavailable = Unavailable("the server does not answer");

pub(super) const MALFORMED_ANSWER: Unavailable = Unavailable("the server's answer is malformed");

/// Codes of errors, and after a tab the message for the operator.
const MESSAGES: &str = include_str!("errors.tsv");

/// Returns the message about an error for the operator.
pub(super) fn unavailable(error: &RedisError) -> Unavailable {
    let kind = error.kind();
    let code = if kind == ErrorKind::AuthenticationFailed {
        "WRONGPASS"
    } else if kind == ErrorKind::ClusterConnectionNotFound {
        "CLUSTERDOWN"
    } else if kind == ErrorKind::Io && error.is_timeout() {
        return NO_ANSWER;
    } else if kind == ErrorKind::Io {
        // The library reports a failed handshake as text.
        if error.to_string().contains("certificate") { "handshake" } else { "connection" }
    } else if is_forbidden_to_scripts(error) {
        "NOPERM"
    } else {
        error.code().unwrap_or_default()
    };
    let mut rows = MESSAGES.lines().filter_map(|line| line.split_once('\t'));
    let row = rows.find(|(codes, _)| codes.split(' ').any(|known| known == code));
    Unavailable(row.map_or("the server rejects the command", |(_, message)| message))
}

/// Whether the user may not run a command in a script. Redis has no code for this up to 7.0, only
/// words.
fn is_forbidden_to_scripts(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.starts_with("The user executing the script can't ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: impl Into<RedisError>, expect: &str) {
        let error = error.into();
        assert_eq!(unavailable(&error).0, expect, "{error}");
    }

    #[test]
    fn each_error_kind_has_a_fixed_message() {
        check(
            (ErrorKind::AuthenticationFailed, "no", "secret".to_owned()),
            "the server refuses the user name or the password",
        );
        check(
            std::io::Error::from(std::io::ErrorKind::ConnectionRefused),
            "the server cannot be reached",
        );
        check(std::io::Error::from(std::io::ErrorKind::TimedOut), NO_ANSWER.0);
        check((ErrorKind::UnexpectedReturnType, "what"), "the server rejects the command");
    }
}
