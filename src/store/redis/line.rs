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

use super::server::{Link, Node, Server};
use super::why::{SILENT, why};
use crate::store::far::Unavailable;

/// For a connection to be whole, a Cluster's included, which has many.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a start waits for the first connection.
const START: Duration = Duration::from_secs(2);
/// For an answer to a bare question, before the connection is taken to be dead.
const PING: Duration = Duration::from_secs(1);
/// After the first try to connect that failed; each later pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause: so long a server that is back goes unused at the most.
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// A connection that is made again whenever it is lost, for as long as this lives.
pub(super) struct Line {
    state: watch::Receiver<State>,
    doubts: Arc<Notify>,
    /// The latest connection, by its count, that was found to lead to a read-only copy.
    copies: watch::Sender<u64>,
    keeper: JoinHandle<()>,
}

#[derive(Clone)]
enum State {
    /// No answer so far to the first try, or to the first one since a connection was lost.
    Connecting,
    /// The last try failed; the next comes by itself.
    Down(Unavailable),
    /// The connection, and how often one was found to be good before it.
    Up(Link, u64),
}

impl Line {
    /// Begins to connect. Must be called within a runtime.
    pub(super) fn to(server: Server) -> Self {
        let (tell, state) = watch::channel(State::Connecting);
        let doubts = Arc::<Notify>::default();
        let (copies, found) = watch::channel(0);
        let keeper = Keeper {
            server,
            tell,
            doubts: Arc::clone(&doubts),
            copies: found,
            epoch: 0,
        };
        Self {
            state,
            doubts,
            copies,
            keeper: tokio::spawn(keeper.keep()),
        }
    }

    /// Waits until there is a connection, or it is known that there is none, or long enough.
    pub(super) async fn begun(&self) -> Result<(), Unavailable> {
        let mut state = self.state.clone();
        let begun = state.wait_for(|state| !matches!(state, State::Connecting));
        let Ok(Ok(state)) = timeout(START, begun).await else {
            return Err(SILENT);
        };
        match &*state {
            State::Connecting => Err(SILENT),
            State::Down(why) => Err(*why),
            State::Up(..) => Ok(()),
        }
    }

    /// Sends commands in one go to where their keys are, which is one place for those of one scope;
    /// an answer for each. They may be sent twice, where a connection breaks under them.
    pub(super) async fn ask(&self, commands: &Pipeline) -> Result<Vec<Value>, Unavailable> {
        self.ask_at(&Node::OfKeys, commands).await
    }

    /// The same to one node.
    ///
    /// A connection that nobody used for a while may have ended unnoticed, with a restart of the
    /// server for instance. Whoever finds that out is served by the next one.
    pub(super) async fn ask_at(
        &self,
        node: &Node,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, Unavailable> {
        let (link, epoch) = self.link_after(0).await?;
        match self.send((link, epoch), node, commands).await {
            Err(error) if error.is_unrecoverable_error() => {
                let next = self.link_after(epoch).await?;
                self.send(next, node, commands).await
            }
            answer => answer,
        }
        .map_err(|error| why(&error))
    }

    /// Sends commands by this connection. Has it replaced if it leads to a read-only copy: a primary
    /// that lost its place keeps its connections, and their name leads to another server by now.
    async fn send(
        &self,
        (mut link, epoch): (Link, u64),
        node: &Node,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, RedisError> {
        let answers = self.doubting(link.send(node, commands)).await?;
        if answers.iter().any(is_of_copy) {
            self.copies.send_if_modified(|latest| {
                let is_news = *latest < epoch;
                *latest = epoch.max(*latest);
                is_news
            });
        }
        Ok(answers)
    }

    /// All that have keys.
    pub(super) async fn nodes(&self) -> Result<Vec<Node>, Unavailable> {
        let (mut link, _) = self.link_after(0).await?;
        let nodes = self.doubting(link.nodes()).await;
        nodes.map_err(|error| why(&error))
    }

    /// A connection that was found to be good after so many others.
    async fn link_after(&self, epoch: u64) -> Result<(Link, u64), Unavailable> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| match state {
            State::Connecting => false,
            State::Down(_) => true,
            State::Up(_, now) => *now > epoch,
        });
        match settled.await.as_deref() {
            Ok(State::Up(link, epoch)) => Ok((link.clone(), *epoch)),
            Ok(State::Down(why)) => Err(*why),
            // The keeper lives as long as this does.
            Ok(State::Connecting) | Err(_) => Err(SILENT),
        }
    }

    /// Has the connection looked at if nothing, or no answer, comes of this.
    async fn doubting<T>(
        &self,
        asking: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        let mut doubt = Doubt(Some(&self.doubts));
        let answer = asking.await;
        if answer.is_ok() {
            doubt.0 = None;
        }
        answer
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Rings when dropped, unless it was dispelled.
struct Doubt<'l>(Option<&'l Notify>);

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(doubts) = self.0 {
            doubts.notify_one();
        }
    }
}

/// Whether a server answers so because it follows another.
fn is_of_copy(answer: &Value) -> bool {
    let Value::ServerError(error) = answer else {
        return false;
    };
    matches!(error.code(), "READONLY" | "MASTERDOWN")
}

/// Makes the connection, and again whenever it is lost.
struct Keeper {
    server: Server,
    tell: watch::Sender<State>,
    doubts: Arc<Notify>,
    copies: watch::Receiver<u64>,
    /// How often a connection was found to be good.
    epoch: u64,
}

impl Keeper {
    async fn keep(mut self) {
        let mut backoff = Backoff(PAUSE_FIRST);
        loop {
            let held = match timeout(CONNECT, self.server.connect()).await {
                Ok(Ok(link)) => self.hold(link).await,
                Ok(Err(error)) => self.fail(why(&error)),
                Err(_) => self.fail(SILENT),
            };
            backoff.after(held).await;
        }
    }

    /// Gives out a connection until it is lost, or leads to a copy; says how long that was.
    async fn hold(&mut self, mut link: Link) -> Duration {
        let began = Instant::now();
        let first = self.epoch + 1;
        loop {
            self.epoch += 1;
            self.tell.send_replace(State::Up(link.clone(), self.epoch));
            let copies = &mut self.copies;
            let found = async { copies.wait_for(|at| *at >= first).await.map(drop) };
            tokio::select! {
                // It stays in use until there is another: a copy can be read.
                _ = found => break,
                () = self.doubts.notified() => {}
            }
            if !matches!(timeout(PING, link.ping()).await, Ok(Ok(()))) {
                self.tell.send_replace(State::Connecting);
                break;
            }
        }
        began.elapsed()
    }

    /// There is no connection, which held for no time.
    fn fail(&self, why: Unavailable) -> Duration {
        self.tell.send_replace(State::Down(why));
        Duration::ZERO
    }
}

/// The next pause between two tries to connect.
struct Backoff(Duration);

impl Backoff {
    /// Waits after a connection that held so long; after one that held well, not at all.
    async fn after(&mut self, held: Duration) {
        if held > PAUSE_LONGEST {
            self.0 = PAUSE_FIRST;
            return;
        }
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_LONGEST);
    }
}
