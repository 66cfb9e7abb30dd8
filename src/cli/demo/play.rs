//! Plays a session request by request, as an agent would: directly, and through the real proxy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::cli::loopback::LoopbackProxy;
use crate::config::Config;
use crate::error::Problem;
use longhaul_mock_model::{
    Model, ModelOptions, ReplyCompletion, RequestKind, SeenRequest, TokenDensity,
};

use super::client::AgentClient;
use super::injected;
use super::report::{DemoReport, InjectedMessage, PlayOutcome};
use super::row::PlayRow;
use super::session::RecordedSession;
use crate::cli::progress::ProgressLine;

/// The number of times the agent yields to other tasks between two requests. All tasks share one
/// thread, so this many steps run however slow the machine is. A background job needs fewer steps
/// to reach the model.
const PAUSES: usize = 12;
/// The duration of each pause: the timer's smallest step.
const PAUSE: Duration = Duration::from_millis(1);
/// The time limit for a background summary, which takes only moments here.
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(10);

/// The writer of summaries.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Summariser {
    /// The model of the conversation.
    Own,
    /// No model: digests replace summaries.
    #[value(name = "none")]
    Nobody,
}

/// Plays the session to two models of the same kind, one directly and one through longhaul.
pub(super) async fn play_both(
    session: &RecordedSession,
    options: ModelOptions,
    summariser: Summariser,
) -> io::Result<DemoReport> {
    let model = Model::start(options.clone()).await?;
    let direct = SessionPlayer::new("direct", session, &model, model.addr());
    let (direct, _) = direct.play(Summariser::Nobody).await;

    let (longhaul, injected) = play_through_proxy(session, options.clone(), summariser, |base| {
        // The demo is about a window that only refusals reveal.
        let mut settings = vec![("upstream.base", base), ("upstream.ask", "false")];
        match summariser {
            Summariser::Nobody => settings.push(("summary.model", "none")),
            Summariser::Own => {}
        }
        Config::default_with(settings)
    })
    .await?;
    Ok(DemoReport {
        session: session.name.clone(),
        requests: session.len(),
        window: options.window,
        direct,
        longhaul,
        injected,
    })
}

/// Plays the session through a proxy. `configure` returns its settings for the model's base URL.
/// Fails if the model or the proxy cannot be started.
pub(crate) async fn play_through_proxy(
    session: &RecordedSession,
    options: ModelOptions,
    summariser: Summariser,
    configure: impl FnOnce(&str) -> Result<Config, Vec<Problem>>,
) -> io::Result<(PlayOutcome, Option<InjectedMessage>)> {
    let model = Model::start(options).await?;
    let config = configure(&model.url()).map_err(|problems| to_io_error(&problems))?;
    let proxy = LoopbackProxy::start(config).await?;
    let stage = SessionPlayer::new("through longhaul", session, &model, proxy.address);
    Ok(stage.play(summariser).await)
}

fn to_io_error(problems: &[Problem]) -> io::Error {
    let told: Vec<String> = problems.iter().map(Problem::to_string).collect();
    io::Error::other(told.join("; "))
}

/// A session, the model that answers it, and a client of the server that the agent calls.
struct SessionPlayer<'a> {
    session: &'a RecordedSession,
    model: &'a Model,
    client: AgentClient,
    name: &'static str,
    progress: ProgressLine,
}

impl<'a> SessionPlayer<'a> {
    fn new(
        name: &'static str,
        session: &'a RecordedSession,
        model: &'a Model,
        asked: SocketAddr,
    ) -> Self {
        Self {
            session,
            model,
            client: AgentClient::new(asked, session.path()),
            name,
            progress: ProgressLine::new(),
        }
    }

    /// Sends all requests in order up to the first error, where an agent would stop too.
    async fn play(self, summariser: Summariser) -> (PlayOutcome, Option<InjectedMessage>) {
        let mut rows = Vec::with_capacity(self.session.len());
        let mut injected = None;
        let mut known = 0;
        for (at, asked) in self.session.requests().enumerate() {
            let what = format!("{}: request", self.name);
            self.progress.show_step(&what, at + 1, self.session.len());
            let tokens = TokenDensity::STANDARD
                .request_tokens(&asked.body)
                .unwrap_or(0);
            let reply = self.client.send(asked.body.clone()).await;
            if summariser == Summariser::Own {
                self.wait_for_background().await;
            }
            let all = self.model.seen();
            let seen = all.get(known..).unwrap_or_default();
            known = all.len();
            let row = PlayRow::new(at + 1, &asked, tokens, reply, seen);
            if row.rewritten && (row.prefix_changed || row.refused > 0) {
                injected = prefer_summary(injected, || injected_message(&row, &asked.body, seen));
            }
            let over = row.error.is_some();
            rows.push(row);
            if over {
                break;
            }
        }
        (PlayOutcome::from_rows(rows), injected)
    }

    /// Waits between two requests until background work has finished, so that a session has the
    /// same table on every machine.
    async fn wait_for_background(&self) {
        let pending = |seen: &SeenRequest| {
            seen.kind == RequestKind::Summary && seen.ended == ReplyCompletion::Pending
        };
        yield_to_tasks().await;
        while self.model.seen().iter().any(pending) {
            let ended = self.model.wait_for(|seen| !seen.iter().any(pending));
            if timeout(SUMMARY_TIMEOUT, ended).await.is_err() {
                return;
            }
            yield_to_tasks().await;
        }
    }
}

/// Lets the other tasks on this thread run until each waits for something.
pub(crate) async fn yield_to_tasks() {
    for _ in 0..PAUSES {
        sleep(PAUSE).await;
    }
}

/// Returns the first message that a model wrote, or else the first of all.
fn prefer_summary(
    found: Option<InjectedMessage>,
    next: impl FnOnce() -> Option<InjectedMessage>,
) -> Option<InjectedMessage> {
    let written = |injected: &InjectedMessage| injected.action.iter().any(|word| word == "summary");
    match found {
        None => next(),
        Some(found) if written(&found) => Some(found),
        Some(found) => next().filter(written).or(Some(found)),
    }
}

fn injected_message(row: &PlayRow, sent: &[u8], seen: &[SeenRequest]) -> Option<InjectedMessage> {
    let forwarded = seen
        .iter()
        .rev()
        .find(|seen| seen.kind == RequestKind::Chat)?;
    Some(InjectedMessage {
        request: row.request,
        action: row.action.clone(),
        text: injected::injected_text(sent, &forwarded.body)?,
    })
}
