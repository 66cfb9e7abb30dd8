//! Replays a session through the real proxy and keeps what longhaul forwards.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::AUTHORIZATION;

use super::arms::Arm;
use super::paid_client::PaidClient;
use super::replay_upstream::{ReplayUpstream, Stopped};
use super::sessions::EvalSession;
use crate::cli::demo::yield_to_tasks;
use crate::cli::loopback::{LoopbackClient, LoopbackProxy, isolated};
use crate::cli::model_window::ModelWindow;
use crate::config::{BaseUrl, Config, SummaryEndpoint, SummaryModel};
use crate::error::Problem;
use longhaul_mock_model::{Model, ModelOptions};

/// Time that a request of the replay waits for its summary. No call takes as long, so the forwarded history
/// does not depend on the speed of the model.
const SUMMARY_WAIT: Duration = Duration::from_hours(1);
/// Summaries per conversation and hour. A replay takes seconds for what took an agent hours.
const SUMMARIES_PER_HOUR: usize = 100_000;
/// Maximum bytes of a reply of the model in this process.
const REPLY_BYTES: usize = 16 << 20;

/// A session as longhaul forwards it.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// Whether each request was changed, in order. Shorter than the session if the replay ended early.
    pub(super) changed: Vec<bool>,
    /// The wanted requests that were changed, as longhaul forwarded them.
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
) -> Result<Replayed, Problem> {
    let told = |error: io::Error| Problem::Listen(format!("cannot replay on loopback: {error}"));
    let window = ModelWindow::for_model(&arm.config, model, None);
    let marks = window.policy().prune_thresholds;
    let options = ModelOptions::with_window(u64::from(marks.actual_window.get()));
    let in_process = Model::start(options).await.map_err(told)?;
    let gateway = ReplayUpstream::start(in_process.addr(), caller.cloned()).await;
    let gateway = gateway.map_err(told)?;
    let config = isolated(&arm.config, &gateway.url(), marks.window, &window.source())?;
    let config = with_summaries_at(config, &arm.config, &gateway)?;
    let proxy = LoopbackProxy::start(config).await.map_err(told)?;
    let client = LoopbackClient::new(proxy.address);
    let credentials = [(AUTHORIZATION, HeaderValue::from_static("Bearer replay"))];
    let path = format!("/v1{}", session.dialect.path());
    let until = wanted.map_or(session.len(), |wanted| {
        wanted.last().map_or(0, |last| last + 1)
    });
    let mut replayed = Replayed::default();
    for (at, body) in session.bodies().enumerate().take(until) {
        let body = Bytes::from(body);
        let limits = (REPLY_BYTES, SUMMARY_WAIT);
        let reply = client.post(&path, &credentials, body.clone(), limits).await;
        if arm.config.summary.model != SummaryModel::Disabled {
            wait_for_background(&gateway).await;
        }
        match gateway.take_stopped() {
            None => {}
            Some(Stopped::Budget) => break,
            Some(Stopped::Problem(problem)) => return Err(problem),
        }
        if !reply.is_ok_and(|reply| reply.status.is_success()) {
            // An agent would stop here too.
            break;
        }
        let forwarded = gateway.forwarded();
        let is_changed = forwarded != body;
        replayed.changed.push(is_changed);
        if is_changed && wanted.is_some_and(|wanted| wanted.contains(&at)) {
            replayed.bodies.insert(at, forwarded);
        }
    }
    Ok(replayed)
}

/// Returns `config` with summaries that are requested as under `like`, but at the gateway.
fn with_summaries_at(
    mut config: Config,
    like: &Config,
    gateway: &ReplayUpstream,
) -> Result<Config, Problem> {
    config.summary.wait_limit = SUMMARY_WAIT;
    config.summary.max_per_hour = SUMMARIES_PER_HOUR;
    if let Some(endpoint) = &like.summary.endpoint {
        let base = BaseUrl::parse(&gateway.url());
        let base = base.map_err(|error| Problem::Listen(error.to_string()))?;
        config.summary.endpoint = Some(SummaryEndpoint {
            base,
            api: endpoint.api,
            authorization: None,
        });
    }
    Ok(config)
}

/// Waits between two requests until background work has finished, so that a session is forwarded in the
/// same form on every machine.
async fn wait_for_background(gateway: &ReplayUpstream) {
    yield_to_tasks().await;
    while gateway.has_pending_summary() {
        gateway.wait_for_summaries().await;
        yield_to_tasks().await;
    }
}
