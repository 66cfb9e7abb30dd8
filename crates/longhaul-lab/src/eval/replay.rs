//! Replays a session through the real proxy and keeps the forwarded requests.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::arms::Arm;
use super::paid_client::PaidClient;
use super::replay_upstream::{ReplayUpstream, Stopped};
use super::sessions::EvalSession;
use crate::error::LabError;
use crate::evaluation::likelihood::newest;
use crate::proxy::{ProxyRole, ReplayTarget, SummaryLimits};
use crate::session_runner::SessionRunner;
use longhaul_mock_model::{Model, ModelOptions};

/// Time that a request of the replay waits for its summary. No call takes as long, so the forwarded history
/// does not depend on the speed of the model.
const SUMMARY_WAIT: Duration = Duration::from_hours(1);
/// Summaries per conversation and hour. A replay takes seconds, the agent took hours.
const SUMMARIES_PER_HOUR: usize = 100_000;

/// A session as longhaul forwards it.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// Whether each request was changed, in order. Shorter than the session if the replay ended early.
    pub(super) changed: Vec<bool>,
    /// The wanted requests that were changed, with the history of the arm.
    pub(super) bodies: BTreeMap<usize, Bytes>,
}

/// Replays `session` under the settings of `arm`, up to the last of the `wanted` requests, or whole if
/// `wanted` is `None`. With `caller`, the summaries are those of the evaluated settings; without, the
/// model in this process writes them. Fails if loopback cannot be used, or a call for a summary
/// shows that no call can succeed.
pub(super) async fn replay(
    arm: &Arm,
    session: &EvalSession,
    model: &str,
    caller: Option<&Arc<PaidClient>>,
    wanted: Option<&[usize]>,
) -> Result<Replayed, LabError> {
    let told = |error: io::Error| LabError::Listen(format!("cannot replay on loopback: {error}"));
    let known = arm.settings.known_model(model);
    let options = ModelOptions::with_window(known.actual_window.get().into());
    let in_process = Model::start(options).await.map_err(told)?;
    let upstream = ReplayUpstream::start(in_process.addr(), caller.cloned()).await;
    let upstream = upstream.map_err(told)?;
    let target = ReplayTarget {
        base: &upstream.url(),
        model: &known,
        summaries: Some(SummaryLimits { wait: SUMMARY_WAIT, per_hour: SUMMARIES_PER_HOUR }),
    };
    let proxy = arm.settings.start(ProxyRole::Replay(target)).await;
    let proxy = proxy.map_err(told)?;
    let runner = SessionRunner::new(proxy.address, session.dialect.path(), SUMMARY_WAIT);
    let background = arm.settings.has_summary_model().then_some(&upstream);
    let until =
        wanted.map_or(session.recording.len(), |wanted| wanted.last().map_or(0, |last| last + 1));
    let mut replayed = Replayed::default();
    for (at, body) in session.recording.bodies().enumerate().take(until) {
        let body = Bytes::from(body);
        let reply = runner.send(body.clone(), background).await;
        match upstream.take_stopped() {
            None => {}
            Some(Stopped::Budget) => break,
            Some(Stopped::LabError(problem)) => return Err(problem),
        }
        if !reply.is_ok_and(|reply| reply.status.is_success()) {
            // An agent would stop here too.
            break;
        }
        let forwarded = upstream.forwarded();
        let is_changed = forwarded != body;
        replayed.changed.push(is_changed);
        if is_changed && wanted.is_some_and(|wanted| wanted.contains(&at)) {
            let read = |body| session.dialect.read(body).ok();
            let newest = || newest(&read(&body)?, &read(&forwarded)?).map(Bytes::from);
            let history = if arm.is_newest { newest() } else { Some(forwarded.clone()) };
            replayed.bodies.extend(history.map(|body| (at, body)));
        }
    }
    Ok(replayed)
}
