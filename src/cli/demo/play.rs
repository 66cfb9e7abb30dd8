//! Plays a session request by request, as an agent would: direct, and through the real proxy.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::config::Config;
use crate::demo::{Density, Ended, Kind, Model, ModelOptions, Seen};
use crate::error::Problem;
use crate::server;

use super::client::Client;
use super::injected;
use super::progress::Progress;
use super::report::{Injected, Played, Report};
use super::row::Row;
use super::session::Session;

/// How often the agent lets everybody else go on between two requests. All share one thread, so
/// that this many steps are taken however slow the machine is: more than a job behind a reply takes
/// from its start to the model.
const THOUGHTS: usize = 12;
/// How long it does nothing each time: the shortest that the timer knows.
const THOUGHT: Duration = Duration::from_millis(1);
/// How long it lets a summary behind a reply take, which here is never more than moments.
const SUMMARY: Duration = Duration::from_secs(10);

/// Who condenses history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::cli) enum Summariser {
    /// Nobody: digests stand for it.
    Nobody,
    /// The model of the conversation.
    Own,
}

/// Plays the session to two models of the same kind, to one of them through longhaul.
pub(super) async fn both(
    session: &Session,
    options: ModelOptions,
    summariser: Summariser,
) -> io::Result<Report> {
    let model = Model::start(options.clone()).await?;
    let direct = Stage::of("direct", session, &model, model.addr());
    let (direct, _) = direct.play(Summariser::Nobody).await;

    let (longhaul, injected) = through(session, options.clone(), summariser, |base| {
        // The show is of a window that only refusals tell.
        let mut settings = vec![("upstream.base", base), ("upstream.ask", "false")];
        match summariser {
            Summariser::Nobody => settings.push(("summary.model", "none")),
            Summariser::Own => {}
        }
        Config::default_with(settings)
    })
    .await?;
    Ok(Report {
        session: session.name.clone(),
        requests: session.len(),
        window: options.window,
        direct,
        longhaul,
        injected,
    })
}

/// Plays the session through a proxy whose settings are made for the model's base URL.
///
/// # Errors
/// The model or the proxy cannot be started.
pub(in crate::cli) async fn through(
    session: &Session,
    options: ModelOptions,
    summariser: Summariser,
    configure: impl FnOnce(&str) -> Result<Config, Vec<Problem>>,
) -> io::Result<(Played, Option<Injected>)> {
    let model = Model::start(options).await?;
    let config = configure(&model.url()).map_err(|problems| in_words(&problems))?;
    let proxy = Proxy::start(config).await?;
    let stage = Stage::of("through longhaul", session, &model, proxy.address);
    Ok(stage.play(summariser).await)
}

fn in_words(problems: &[Problem]) -> io::Error {
    let told: Vec<String> = problems.iter().map(Problem::to_string).collect();
    io::Error::other(told.join("; "))
}

/// A session, who answers in the end, and whom the agent asks.
struct Stage<'a> {
    session: &'a Session,
    model: &'a Model,
    client: Client,
    progress: Progress,
}

impl<'a> Stage<'a> {
    fn of(name: &'static str, session: &'a Session, model: &'a Model, asked: SocketAddr) -> Self {
        Self {
            session,
            model,
            client: Client::of(asked),
            progress: Progress::of(name, session.len()),
        }
    }

    /// Asks everything in order, up to the first error: an agent goes no further either.
    async fn play(self, summariser: Summariser) -> (Played, Option<Injected>) {
        let mut rows = Vec::with_capacity(self.session.len());
        let mut injected = None;
        let mut known = 0;
        for (at, asked) in self.session.requests().enumerate() {
            self.progress.at(at + 1);
            let tokens = Density::STANDARD.request(&asked.body).unwrap_or(0);
            let reply = self.client.ask(asked.body.clone()).await;
            if summariser == Summariser::Own {
                self.think().await;
            }
            let all = self.model.seen();
            let seen = all.get(known..).unwrap_or_default();
            known = all.len();
            let row = Row::of(at + 1, &asked, tokens, reply, seen);
            if row.rewritten && (row.prefix_changed || row.refused > 0) {
                injected = better(injected, || shown(&row, &asked.body, seen));
            }
            let over = row.error.is_some();
            rows.push(row);
            if over {
                break;
            }
        }
        (Played::of(rows), injected)
    }

    /// The time between two requests: what goes on behind a reply comes to its end in it, so that
    /// the same session has the same table on every machine.
    async fn think(&self) {
        let pending = |seen: &Seen| seen.kind == Kind::Summary && seen.ended == Ended::Pending;
        idle().await;
        while self.model.seen().iter().any(pending) {
            let ended = self.model.wait_for(|seen| !seen.iter().any(pending));
            if timeout(SUMMARY, ended).await.is_err() {
                return;
            }
            idle().await;
        }
    }
}

async fn idle() {
    for _ in 0..THOUGHTS {
        sleep(THOUGHT).await;
    }
}

/// The first message that a model wrote, or else the first of all.
fn better(found: Option<Injected>, next: impl FnOnce() -> Option<Injected>) -> Option<Injected> {
    let written = |injected: &Injected| injected.action.iter().any(|word| word == "summary");
    match found {
        None => next(),
        Some(found) if written(&found) => Some(found),
        Some(found) => next().filter(written).or(Some(found)),
    }
}

fn shown(row: &Row, sent: &[u8], seen: &[Seen]) -> Option<Injected> {
    let forwarded = seen.iter().rev().find(|seen| seen.kind == Kind::Chat)?;
    Some(Injected {
        request: row.request,
        action: row.action.clone(),
        text: injected::message(sent, &forwarded.body)?,
    })
}

/// The proxy of every day on a free port; ends when dropped.
struct Proxy {
    address: SocketAddr,
    served: JoinHandle<Result<(), Problem>>,
}

impl Proxy {
    async fn start(config: Config) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (ready, readied) = oneshot::channel();
        let mut served = tokio::spawn(server::run(
            config,
            listener,
            std::future::pending(),
            || _ = ready.send(()),
        ));
        tokio::select! {
            biased;
            Ok(()) = readied => Ok(Self { address, served }),
            ended = &mut served => Err(match ended {
                Ok(Ok(())) => io::Error::other("the proxy ended at once"),
                Ok(Err(problem)) => in_words(&[problem]),
                Err(error) => io::Error::other(error),
            }),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.served.abort();
    }
}
