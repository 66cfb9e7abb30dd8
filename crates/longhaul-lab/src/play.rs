//! Plays a session request by request, as an agent would: directly, and through the real proxy.

mod agent_reply;
mod injected;
pub(crate) mod outcome;
pub(crate) mod row;
pub(crate) mod totals;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use crate::progress::ProgressLine;
use crate::proxy::RunningProxy;
use crate::recorded_session::RecordedSession;
use crate::session_runner::SessionRunner;
use agent_reply::AgentReply;
use longhaul_mock_model::{Model, ModelOptions, RequestKind, SeenRequest, TokenDensity};
use outcome::{InjectedMessage, PlayOutcome};
use row::PlayRow;

/// The time an agent waits for a reply: longer than longhaul holds a request for a summary.
const REPLY_TIMEOUT: Duration = Duration::from_mins(1);

/// The writer of summaries.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Summariser {
    /// The model of the conversation.
    Own,
    /// No model: digests replace summaries.
    #[value(name = "none")]
    Nobody,
}

/// Plays the session to a model without a proxy. Fails if the model cannot be started.
pub(crate) async fn play_directly(
    session: &RecordedSession,
    options: ModelOptions,
) -> io::Result<PlayOutcome> {
    let model = Model::start(options).await?;
    let player = SessionPlayer::new("direct", session, &model, model.addr());
    Ok(player.play(Summariser::Nobody, Duration::ZERO).await.0)
}

/// Plays the session through the proxy that `start` returns for the model's base URL. With a `pause` before
/// each request, never returns: somebody watches. Fails if the model
/// or the proxy cannot be started.
pub(crate) async fn play_through_proxy(
    session: &RecordedSession,
    options: ModelOptions,
    (summariser, pause): (Summariser, Duration),
    start: impl AsyncFnOnce(&str) -> io::Result<RunningProxy>,
) -> io::Result<(PlayOutcome, Option<InjectedMessage>)> {
    let model = Model::start(options).await?;
    let proxy = start(&model.url()).await?;
    let player = SessionPlayer::new("through longhaul", session, &model, proxy.address);
    let played = player.play(summariser, pause).await;
    if !pause.is_zero() {
        // The dashboard shows the session until the user ends the command.
        std::future::pending::<()>().await;
    }
    Ok(played)
}

/// A session, the model that answers it, and an agent of the server that receives its requests.
struct SessionPlayer<'a> {
    session: &'a RecordedSession,
    model: &'a Model,
    runner: SessionRunner,
    name: &'static str,
    progress: ProgressLine,
}

impl<'a> SessionPlayer<'a> {
    fn new(
        name: &'static str,
        session: &'a RecordedSession,
        model: &'a Model,
        server: SocketAddr,
    ) -> Self {
        Self {
            session,
            model,
            runner: SessionRunner::new(server, session.path(), REPLY_TIMEOUT),
            name,
            progress: ProgressLine::new(),
        }
    }

    /// Sends all requests in order up to the first error, where an agent would stop too.
    async fn play(
        self,
        summariser: Summariser,
        pause: Duration,
    ) -> (PlayOutcome, Option<InjectedMessage>) {
        let background = (summariser == Summariser::Own).then_some(self.model);
        let mut rows = Vec::with_capacity(self.session.len());
        let mut injected = None;
        let mut known = 0;
        for (at, asked) in self.session.requests().enumerate() {
            tokio::time::sleep(pause).await;
            let what = format!("{}: request", self.name);
            self.progress.show_step(&what, at + 1, self.session.len());
            let tokens = TokenDensity::STANDARD.request_tokens(&asked.body).unwrap_or(0);
            let body = Bytes::from(asked.body.clone());
            let reply = AgentReply::read(self.runner.send(body, background).await);
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
    let forwarded = seen.iter().rev().find(|seen| seen.kind == RequestKind::Chat)?;
    Some(InjectedMessage {
        request: row.request,
        action: row.action.clone(),
        text: injected::injected_text(sent, &forwarded.body)?,
    })
}
