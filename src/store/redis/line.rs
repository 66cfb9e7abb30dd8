//! The connection, kept up by a task of its own.
//!
//! A request never waits for a server that is known to be away, and no connection depends on a
//! request being patient enough: those who ask take the connection that is there.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, RedisError, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::server::{CommandRoute, RedisClient, RedisConnection};
use super::why::{NO_ANSWER, unavailable};
use crate::store::far::Unavailable;

/// For a connection to be whole, a Cluster's included, which has many.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a start waits for the first connection.
const FIRST_CONNECTION_WAIT: Duration = Duration::from_secs(2);
/// For an answer to a bare question, before the connection is taken to be dead.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// After the first try to connect that failed; each later pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause: so long a server that is back goes unused at the most.
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// A connection that is made again whenever it is lost, for as long as this lives.
pub(super) struct ReconnectingConnection {
    state: watch::Receiver<ConnectionState>,
    check_requests: Arc<Notify>,
    /// The latest connection, by its count, that was found to lead to a read-only copy.
    replica_epoch: watch::Sender<u64>,
    keeper: JoinHandle<()>,
}

#[derive(Clone)]
enum ConnectionState {
    /// No answer so far to the first try, or to the first one since a connection was lost.
    Connecting,
    /// The last try failed; the next comes by itself.
    Down(Unavailable),
    /// The connection, and how often one was found to be good before it.
    Up(RedisConnection, u64),
}

impl ReconnectingConnection {
    /// Begins to connect. Must be called within a runtime.
    pub(super) fn start(server: RedisClient) -> Self {
        let (tell, state) = watch::channel(ConnectionState::Connecting);
        let doubts = Arc::<Notify>::default();
        let (copies, found) = watch::channel(0);
        let keeper = ConnectionKeeper {
            server,
            state_sender: tell,
            check_requests: Arc::clone(&doubts),
            replica_epoch: found,
            epoch: 0,
        };
        Self {
            state,
            check_requests: doubts,
            replica_epoch: copies,
            keeper: tokio::spawn(keeper.run()),
        }
    }

    /// Waits until there is a connection, or it is known that there is none, or long enough.
    pub(super) async fn wait_until_ready(&self) -> Result<(), Unavailable> {
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

    /// Sends commands in one go to where their keys are, which is one place for those of one scope;
    /// an answer for each. They may be sent twice, where a connection breaks under them.
    pub(super) async fn send_to_key_owner(
        &self,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Unavailable> {
        self.send_to(&CommandRoute::KeyOwner, commands).await
    }

    /// The same to one node.
    ///
    /// A connection that nobody used for a while may have ended unnoticed, with a restart of the
    /// server for instance. Whoever finds that out is served by the next one.
    pub(super) async fn send_to(
        &self,
        node: &CommandRoute,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Unavailable> {
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

    /// Sends commands by this connection. Has it replaced if it leads to a read-only copy: a primary
    /// that lost its place keeps its connections, and their name leads to another server by now.
    async fn send_on(
        &self,
        (mut link, epoch): (RedisConnection, u64),
        node: &CommandRoute,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, RedisError> {
        let answers = self.check_on_failure(link.send(node, commands)).await?;
        if answers.iter().any(is_replica_answer) {
            self.replica_epoch.send_if_modified(|latest| {
                let is_news = *latest < epoch;
                *latest = epoch.max(*latest);
                is_news
            });
        }
        Ok(answers)
    }

    /// All that have keys.
    pub(super) async fn nodes(&self) -> Result<Vec<CommandRoute>, Unavailable> {
        let (mut link, _) = self.connection_after(0).await?;
        let nodes = self.check_on_failure(link.nodes()).await;
        nodes.map_err(|error| unavailable(&error))
    }

    /// A connection that was found to be good after so many others.
    async fn connection_after(&self, epoch: u64) -> Result<(RedisConnection, u64), Unavailable> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| match state {
            ConnectionState::Connecting => false,
            ConnectionState::Down(_) => true,
            ConnectionState::Up(_, now) => *now > epoch,
        });
        match settled.await.as_deref() {
            Ok(ConnectionState::Up(link, epoch)) => Ok((link.clone(), *epoch)),
            Ok(ConnectionState::Down(why)) => Err(*why),
            // The keeper lives as long as this does.
            Ok(ConnectionState::Connecting) | Err(_) => Err(NO_ANSWER),
        }
    }

    /// Has the connection looked at if nothing, or no answer, comes of this.
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

impl Drop for ReconnectingConnection {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Rings when dropped, unless it was dispelled.
struct HealthCheckGuard<'l>(Option<&'l Notify>);

impl Drop for HealthCheckGuard<'_> {
    fn drop(&mut self) {
        if let Some(doubts) = self.0 {
            doubts.notify_one();
        }
    }
}

/// Whether a server answers so because it follows another.
fn is_replica_answer(answer: &Value) -> bool {
    let Value::ServerError(error) = answer else {
        return false;
    };
    matches!(error.code(), "READONLY" | "MASTERDOWN")
}

/// Makes the connection, and again whenever it is lost.
struct ConnectionKeeper {
    server: RedisClient,
    state_sender: watch::Sender<ConnectionState>,
    check_requests: Arc<Notify>,
    replica_epoch: watch::Receiver<u64>,
    /// How often a connection was found to be good.
    epoch: u64,
}

impl ConnectionKeeper {
    async fn run(mut self) {
        let mut backoff = Backoff(PAUSE_FIRST);
        loop {
            let held = match timeout(CONNECT_TIMEOUT, self.server.connect()).await {
                Ok(Ok(link)) => self.publish(link).await,
                Ok(Err(error)) => self.publish_failure(unavailable(&error)),
                Err(_) => self.publish_failure(NO_ANSWER),
            };
            backoff.wait_after(held).await;
        }
    }

    /// Gives out a connection until it is lost, or leads to a copy; says how long that was.
    async fn publish(&mut self, mut link: RedisConnection) -> Duration {
        let began = Instant::now();
        let first = self.epoch + 1;
        loop {
            self.epoch += 1;
            self.state_sender
                .send_replace(ConnectionState::Up(link.clone(), self.epoch));
            let copies = &mut self.replica_epoch;
            let found = async { copies.wait_for(|at| *at >= first).await.map(drop) };
            tokio::select! {
                // It stays in use until there is another: a copy can be read.
                _ = found => break,
                () = self.check_requests.notified() => {}
            }
            if !matches!(timeout(PING_TIMEOUT, link.ping()).await, Ok(Ok(()))) {
                self.state_sender.send_replace(ConnectionState::Connecting);
                break;
            }
        }
        began.elapsed()
    }

    /// There is no connection, which held for no time.
    fn publish_failure(&self, why: Unavailable) -> Duration {
        self.state_sender.send_replace(ConnectionState::Down(why));
        Duration::ZERO
    }
}

/// The next pause between two tries to connect.
struct Backoff(Duration);

impl Backoff {
    /// Waits after a connection that held so long; after one that held well, not at all.
    async fn wait_after(&mut self, held: Duration) {
        if held > PAUSE_LONGEST {
            self.0 = PAUSE_FIRST;
            return;
        }
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_LONGEST);
    }
}
