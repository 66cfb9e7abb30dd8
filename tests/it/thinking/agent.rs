//! An agent that returns the thinking of each reply, and the proxies that it talks to.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use longhaul::Config;
use longhaul_mock_model::{Model, ModelOptions, RequestKind, Verdict};
use serde_json::{Map, Value, json};

use crate::harness::Proxy;
use crate::journey::Step;
use crate::received_reply::ReceivedReply;
use crate::sessions::named;

/// A recorded session, with the thinking that the model signed so far.
pub(super) struct Agent {
    fields: Map<String, Value>,
    messages: Vec<Value>,
    /// Number of messages of each request.
    points: Vec<usize>,
}

impl Agent {
    pub(super) fn new(session: &str, model: &str) -> Self {
        let session = named(session);
        let points = session.replay().requests().map(|it| it.messages()).collect();
        let Value::Object(mut fields) = serde_json::from_slice(&session.body).unwrap() else {
            panic!("a body is an object");
        };
        let Some(Value::Array(messages)) = fields.remove("messages") else {
            panic!("a body has messages");
        };
        fields.remove("stream");
        fields.insert("model".into(), model.into());
        Self { fields, messages, points }
    }

    /// Sets a member of every further request.
    pub(super) fn set(&mut self, name: &str, json: &str) {
        self.fields.insert(name.into(), json.parse().unwrap());
    }

    /// Number of requests.
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// Returns the body of a request.
    pub(super) fn body(&self, request: usize) -> Vec<u8> {
        let mut body = self.fields.clone();
        let messages = self.messages[..self.points[request]].to_vec();
        body.insert("messages".into(), messages.into());
        Value::Object(body).to_string().into()
    }

    /// Takes the thinking of the reply to a request into the recorded answer, if there is one.
    pub(super) fn take(&mut self, request: usize, reply: &ReceivedReply) {
        let Ok(reply) = serde_json::from_slice::<Value>(&reply.body) else {
            return;
        };
        let thinking = &reply["choices"][0]["message"]["reasoning_details"];
        let answer = self.messages.get_mut(self.points[request]);
        if let Some(answer) = answer.filter(|it| it["role"] == "assistant")
            && !thinking.is_null()
        {
            answer["reasoning_details"] = thinking.clone();
        }
    }

    /// Puts signed thinking into every answer, for an upstream that checks none.
    pub(super) fn sign_all(&mut self) {
        for message in &mut self.messages {
            if message["role"] == "assistant" {
                message["reasoning_details"] =
                    json!([{"type": "reasoning.text", "text": "t", "signature": "s"}]);
            }
        }
    }

    /// Rewinds to a request: the user says something else, and the recording goes on from there
    /// without the thinking of the abandoned branch.
    pub(super) fn fork(&mut self, request: usize, words: &str) {
        let from = self.points[request];
        self.messages[from - 1]["content"] = words.into();
        for message in &mut self.messages[from..] {
            message.as_object_mut().unwrap().remove("reasoning_details");
        }
    }
}

/// A model, and proxies in front of it.
pub(super) struct Play {
    pub(super) model: Model,
    pub(super) config: Config,
    proxies: Vec<Proxy>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Play {
    /// Starts a model, and one proxy.
    pub(super) async fn start(options: ModelOptions, change: impl FnOnce(&mut Config)) -> Self {
        let model = Model::start(options).await.unwrap();
        let mut config = Config::default_with([("upstream.base", model.url().as_str())]).unwrap();
        change(&mut config);
        let proxies = vec![Proxy::with(config.clone()).await];
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { model, config, proxies, client }
    }

    /// Starts one more proxy.
    pub(super) async fn add_proxy(&mut self) {
        self.proxies.push(Proxy::with(self.config.clone()).await);
    }

    /// Replaces the first proxy with a fresh one that shares only its store.
    pub(super) async fn restart(&mut self) {
        self.proxies.remove(0).stop().await;
        self.proxies.insert(0, Proxy::with(self.config.clone()).await);
    }

    /// Stops the first proxy, calls `between` and starts a fresh one.
    pub(super) async fn restart_after(&mut self, between: impl FnOnce()) {
        self.proxies.remove(0).stop().await;
        between();
        self.proxies.insert(0, Proxy::with(self.config.clone()).await);
    }

    /// Sends a request of the agent through a proxy, with these headers.
    pub(super) async fn step(
        &self,
        agent: &mut Agent,
        request: usize,
        (proxy, headers): (usize, &[(&str, &str)]),
    ) -> Step {
        let body = agent.body(request);
        let before = self.model.seen().len();
        let uri = format!("http://{}/v1/chat/completions", self.proxies[proxy].address);
        let mut head = Request::post(uri).header("content-type", "application/json");
        for (name, value) in headers {
            head = head.header(*name, *value);
        }
        let sent = head.body(Full::new(Bytes::from(body.clone()))).unwrap();
        let arrived = ReceivedReply::read(self.client.request(sent).await.unwrap()).await;
        agent.take(request, &arrived);
        let mut upstream = self.model.seen().split_off(before);
        upstream.retain(|seen| seen.kind == RequestKind::Chat);
        Step { sent: body, arrived, upstream }
    }

    /// Plays these requests through the first proxy.
    pub(super) async fn part(
        &self,
        agent: &mut Agent,
        requests: std::ops::Range<usize>,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for request in requests {
            steps.push(self.step(agent, request, (0, &[])).await);
        }
        steps
    }

    /// Plays the whole session through the first proxy.
    pub(super) async fn whole(&self, agent: &mut Agent) -> Vec<Step> {
        let requests = agent.len();
        self.part(agent, 0..requests).await
    }
}

/// Checks that the client sees no refusal, and that nothing is sent more than twice.
#[track_caller]
pub(super) fn unharmed(name: &str, steps: &[Step]) {
    for (at, step) in steps.iter().enumerate() {
        let sent: Vec<_> = step.upstream.iter().map(|seen| seen.verdict).collect();
        assert!(
            step.arrived.is_answer(),
            "{name}, request {at}: the client sees {} {} after {sent:?}",
            step.arrived.status,
            String::from_utf8_lossy(&step.arrived.body)
        );
        assert!((1..=2).contains(&sent.len()), "{name}, request {at}: {sent:?}");
        assert_eq!(sent.last(), Some(&Verdict::Accepted), "{name}, request {at}");
        for seen in &step.upstream {
            assert!(seen.body.len() <= step.sent.len(), "{name}, request {at} has grown");
        }
    }
}

/// Counts the refusals of stale thinking, which the client did not see.
pub(super) fn stale_refusals(steps: &[Step]) -> usize {
    let all = steps.iter().flat_map(|step| &step.upstream);
    all.filter(|seen| seen.verdict == Verdict::Broken("stale-thinking")).count()
}
