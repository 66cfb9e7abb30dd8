//! An agent's session, played request by request through a real proxy to the strict model.

use crate::oracle::reader::messages;
use crate::received_reply::ReceivedReply;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use longhaul::Config;
use longhaul::config::SummaryModel;
use longhaul_mock_model::{
    Model, ModelOptions, RequestKind, SeenRequest, SessionRecording, Verdict,
};
use std::collections::HashSet;

use crate::harness::Proxy;

/// Beginning of a message that replaces history.
pub(crate) const STANDS_FOR_HISTORY: &str = "[Earlier conversation, condensed by longhaul]";
/// Header that links the model's records to the client's request.
const ORDINAL: &str = "x-ordinal";

/// A client, a proxy and a strict model as the upstream.
pub(crate) struct Journey {
    pub(crate) model: Model,
    config: Config,
    proxy: Option<Proxy>,
    client: Client<HttpConnector, Full<Bytes>>,
    asked: usize,
}

/// A played request and its result.
pub(crate) struct Step {
    /// Body sent by the client.
    pub(crate) sent: Vec<u8>,
    pub(crate) arrived: ReceivedReply,
    /// Requests that the model received for it, in order.
    pub(crate) upstream: Vec<SeenRequest>,
}

impl Step {
    /// Returns the request that the model finally accepted.
    pub(crate) fn forwarded(&self) -> &SeenRequest {
        self.upstream.last().unwrap()
    }
}

/// Configures digests, without a model for summaries.
pub(crate) fn digests(config: &mut Config) {
    config.summary.model = SummaryModel::Disabled;
}

/// Whether every message of `before` is unchanged at the front of `after`.
pub(crate) fn grows(before: &[u8], after: &[u8]) -> bool {
    messages(after).starts_with(&messages(before))
}

impl Journey {
    /// Starts a model with `options`, and a proxy with the defaults as modified by `change`.
    pub(crate) async fn start(options: ModelOptions, change: impl FnOnce(&mut Config)) -> Self {
        let model = Model::start(options).await.unwrap();
        let mut config = Config::default_with([("upstream.base", model.url().as_str())]).unwrap();
        change(&mut config);
        Self {
            proxy: Some(Proxy::with(config.clone()).await),
            client: Client::builder(TokioExecutor::new()).build_http(),
            asked: 0,
            config,
            model,
        }
    }

    /// Replaces the proxy with a fresh one that shares only its store.
    pub(crate) async fn restart(&mut self) {
        self.proxy.take().unwrap().stop().await;
        self.proxy = Some(Proxy::with(self.config.clone()).await);
    }

    /// The proxy's base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.proxy.as_ref().unwrap().address)
    }

    /// Sends one chat request.
    async fn ask(&mut self, body: Vec<u8>) -> ReceivedReply {
        self.asked += 1;
        let uri = format!("{}/chat/completions", self.url());
        let request = Request::post(uri)
            .header("content-type", "application/json")
            .header(ORDINAL, self.asked)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        ReceivedReply::read(self.client.request(request).await.unwrap()).await
    }

    /// Sends one chat request and returns its result.
    pub(crate) async fn step(&mut self, body: Vec<u8>) -> Step {
        let arrived = self.ask(body.clone()).await;
        let upstream = self.seen_for(self.asked);
        Step { sent: body, arrived, upstream }
    }

    fn seen_for(&self, ordinal: usize) -> Vec<SeenRequest> {
        let ordinal = ordinal.to_string();
        let mut seen = self.model.seen();
        seen.retain(|seen| {
            let marked = seen.headers.get(ORDINAL);
            seen.kind == RequestKind::Chat
                && marked.is_some_and(|mark| mark.as_bytes() == ordinal.as_bytes())
        });
        seen
    }

    /// Sends these bodies in order, each after the previous answer, as an agent would.
    pub(crate) async fn play(&mut self, bodies: impl IntoIterator<Item = Vec<u8>>) -> Vec<Step> {
        let mut steps = Vec::new();
        for body in bodies {
            steps.push(self.step(body).await);
        }
        steps
    }
}

/// Returns the bodies of a session.
pub(crate) fn bodies(replay: &SessionRecording) -> impl Iterator<Item = Vec<u8>> + '_ {
    replay.requests().map(|request| request.body())
}

/// Checks the invariants of every played request.
pub(crate) fn harmless(name: &str, steps: &[Step]) {
    for (at, step) in steps.iter().enumerate() {
        assert!(
            step.arrived.is_answer(),
            "{name}, request {at}: the client sees {} {}",
            step.arrived.status,
            String::from_utf8_lossy(&step.arrived.body)
        );
        let count = step.upstream.len();
        assert!((1..=2).contains(&count), "{name}, request {at}: {count} sent");
        assert_eq!(step.forwarded().verdict, Verdict::Accepted, "{name}, request {at}");
        for seen in &step.upstream {
            assert!(seen.body.len() <= step.sent.len(), "{name}, request {at} has grown");
            assert!(
                matches!(seen.verdict, Verdict::Accepted | Verdict::Overflowed),
                "{name}, request {at}: {:?}",
                seen.verdict
            );
        }
    }
}

/// Counts the accepted requests that do not extend the previously accepted one.
pub(crate) fn breaks(steps: &[Step]) -> usize {
    steps
        .windows(2)
        .filter(|pair| !grows(&pair[0].forwarded().body, &pair[1].forwarded().body))
        .count()
}

/// Counts the different texts that replaced history.
pub(crate) fn records(steps: &[Step]) -> usize {
    let mut texts = HashSet::new();
    for step in steps {
        for message in messages(&step.forwarded().body) {
            if message.contains(STANDS_FOR_HISTORY) {
                texts.insert(message.to_owned());
            }
        }
    }
    texts.len()
}

/// Counts the client's requests that were sent twice.
pub(crate) fn retries(steps: &[Step]) -> usize {
    steps.iter().filter(|step| step.upstream.len() == 2).count()
}
