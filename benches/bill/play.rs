//! Plays a session request by request: an agent, the real proxy on loopback, and the strict model.

use crate::prices::Input;
use crate::sessions::Failure;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use longhaul::Config;
use longhaul_mock_model::{
    Model, ModelOptions, ReplyCompletion, RequestKind, SeenRequest, SessionRecording, TokenDensity,
    Verdict,
};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Header with the number of the agent's request that a call to the model belongs to.
const ORDINAL: &str = "x-ordinal";
/// A window that no session fills.
const ENDLESS: u64 = 1 << 40;
/// Header with longhaul's action.
const ACTION: &str = "x-longhaul-action";
/// Number of pauses between two requests, during which a background summary can progress. All tasks
/// share one thread, so this many steps run on any machine.
const THOUGHTS: usize = 12;
const THOUGHT: Duration = Duration::from_millis(1);

/// The proxy and the model that serve a session.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Path of the API.
    pub(crate) path: &'static str,
    /// Context window of the model, in its own tokens.
    pub(crate) window: u64,
    pub(crate) density: TokenDensity,
    /// Settings of the proxy, apart from its upstream.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) summaries: Summaries,
}

/// Writer of the summaries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Summaries {
    /// No model: digests replace history.
    None,
    /// The conversation's own model, which carries over every fact in its input.
    Own,
}

/// Result of a session.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// The answered requests, in order. The agent stops at the first request that is not answered.
    pub(crate) steps: Vec<Step>,
    /// Input of each summary call.
    pub(crate) summaries: Vec<Input>,
    /// The last body that the model accepted.
    pub(crate) last: Bytes,
}

/// An answered request.
#[derive(Debug)]
pub(crate) struct Step {
    /// Input that the model accepted.
    pub(crate) input: Input,
    /// Whether the input did not begin with all previously accepted input.
    pub(crate) changed: bool,
    /// Whether the first attempt was refused and the request was retried.
    pub(crate) retried: bool,
    /// Whether the input contains a digest or a summary.
    pub(crate) condensed: bool,
}

/// Plays `replay` on one thread, so that the order of events is deterministic.
pub(crate) fn play(replay: &SessionRecording, setup: &Setup) -> Result<Played, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { Agent::start(setup).await?.play(replay).await })
}

/// Plays `replay` to the model itself, in a window without end. Returns the input of each request.
pub(crate) fn play_direct(
    replay: &SessionRecording,
    density: TokenDensity,
) -> Result<Vec<Input>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let model =
            Model::start(ModelOptions { density, ..ModelOptions::with_window(ENDLESS) }).await?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let url = [&*model.url(), replay.path()].concat();
        for request in replay.requests() {
            let request = Request::post(&url).body(Full::new(Bytes::from(request.body())))?;
            client.request(request).await?.into_body().collect().await?;
        }
        Ok(model.seen().iter().map(input).collect())
    })
}

/// An agent with its proxy and model.
struct Agent {
    model: Model,
    setup: Setup,
    proxy: JoinHandle<Result<(), longhaul::Problem>>,
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Agent {
    async fn start(setup: &Setup) -> Result<Self, Failure> {
        let model = Model::start(ModelOptions {
            density: setup.density,
            ..ModelOptions::with_window(setup.window)
        })
        .await?;
        let (proxy, url) = serve(setup, &model.url()).await?;
        Ok(Self {
            model,
            setup: setup.clone(),
            proxy,
            url,
            client: Client::builder(TokioExecutor::new()).build_http(),
        })
    }

    async fn play(self, replay: &SessionRecording) -> Result<Played, Failure> {
        let mut actions = Vec::new();
        for (at, request) in replay.requests().enumerate() {
            let Some(action) = self.ask(at, request.body()).await? else {
                break;
            };
            actions.push(action);
            if self.setup.summaries == Summaries::Own {
                self.think().await;
            }
        }
        self.proxy.abort();
        let seen = self.model.seen();
        let of_kind = |kind| seen.iter().filter(move |seen| seen.kind == kind);
        let steps = actions.iter().enumerate();
        let steps = steps.map(|(at, action)| step(of_kind(RequestKind::Chat), at, action));
        let accepted = |seen: &&SeenRequest| seen.verdict == Verdict::Accepted;
        let last = of_kind(RequestKind::Chat).rfind(accepted);
        Ok(Played {
            steps: steps.collect::<Result<_, _>>()?,
            summaries: of_kind(RequestKind::Summary).filter(accepted).map(input).collect(),
            last: last.map(|seen| seen.body.clone()).unwrap_or_default(),
        })
    }

    /// Sends a request. Returns longhaul's action, or `None` if the request was not answered.
    async fn ask(&self, at: usize, body: Vec<u8>) -> Result<Option<String>, Failure> {
        let request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header(ORDINAL, at)
            .body(Full::from(body))?;
        let (head, body) = self.client.request(request).await?.into_parts();
        body.collect().await?;
        let action = head.headers.get(ACTION).map(|action| action.to_str());
        let action = action.transpose()?.unwrap_or_default();
        Ok(head.status.is_success().then(|| action.to_owned()))
    }

    /// Waits between two requests until background work has finished.
    async fn think(&self) {
        let pending = |seen: &SeenRequest| {
            seen.kind == RequestKind::Summary && seen.ended == ReplyCompletion::Pending
        };
        loop {
            for _ in 0..THOUGHTS {
                tokio::time::sleep(THOUGHT).await;
            }
            if !self.model.seen().iter().any(pending) {
                break;
            }
            self.model.wait_for(|seen| !seen.iter().any(pending)).await;
        }
    }
}

/// Starts a proxy in front of the model at `base`. Returns its chat URL.
async fn serve(
    setup: &Setup,
    base: &str,
) -> Result<(JoinHandle<Result<(), longhaul::Problem>>, String), Failure> {
    let condenses = match setup.summaries {
        Summaries::None => "none",
        Summaries::Own => "own",
    };
    let mut settings =
        vec![("upstream.base", base), ("upstream.ask", "false"), ("summary.model", condenses)];
    settings.extend(setup.settings.iter().map(|(key, value)| (&**key, &**value)));
    let config = Config::default_with(settings).map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        told.join("; ")
    })?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}{}", listener.local_addr()?, setup.path);
    let served = longhaul::run(config, listener, std::future::pending(), || ());
    Ok((tokio::spawn(served), url))
}

/// Builds the step of request `at` from the model's records.
fn step<'s>(
    seen: impl Iterator<Item = &'s SeenRequest>,
    at: usize,
    action: &str,
) -> Result<Step, Failure> {
    let ordinal = at.to_string();
    let mine = |seen: &&SeenRequest| {
        let marked = seen.headers.get(ORDINAL);
        marked.is_some_and(|mark| mark.as_bytes() == ordinal.as_bytes())
    };
    let mut sends = seen.filter(mine);
    let (first, second) = (sends.next(), sends.next());
    let accepted = second
        .or(first)
        .filter(|seen| seen.verdict == Verdict::Accepted)
        .ok_or("an answer to a request that the model did not accept")?;
    Ok(Step {
        input: input(accepted),
        changed: !accepted.keeps_prefix(),
        retried: second.is_some(),
        condensed: action.contains("digest") || action.contains("summary"),
    })
}

fn input(seen: &SeenRequest) -> Input {
    Input::of(seen.prompt_tokens, seen.cached_tokens)
}
