//! Messages through the whole proxy: cleared, compacted, refused and streamed.

use longhaul::Config;
use longhaul::config::{StoreLocation, SummaryModel};
use longhaul_mock_model::{ErrorFamily, Model, ModelOptions, RequestKind, SeenRequest, Verdict};
use serde_json::{Value, json};

use super::subject::sessions;
use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;
use crate::received_reply::ReceivedReply;
use crate::recovery::scripted::{self, Reply};

/// Beginning of the text in place of history.
pub(super) const STANDS_FOR_HISTORY: &str = crate::journey::STANDS_FOR_HISTORY;

/// A client, a proxy and a strict model that refuses like Anthropic.
pub(super) struct Setup {
    pub(super) model: Model,
    config: Config,
    proxies: Vec<Proxy>,
}

impl Setup {
    pub(super) async fn start(window: u64, change: impl FnOnce(&mut Config)) -> Self {
        let options = ModelOptions::with_window(window).refusing_as(ErrorFamily::Anthropic);
        Self::at(options, change).await
    }

    /// Starts a model with these options.
    pub(super) async fn at(options: ModelOptions, change: impl FnOnce(&mut Config)) -> Self {
        let model = Model::start(options).await.unwrap();
        let base = format!("http://{}", model.addr());
        let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
        digests(&mut config);
        change(&mut config);
        let proxies = vec![Proxy::with(config.clone()).await];
        Self { model, config, proxies }
    }

    /// Starts one more process.
    pub(super) async fn add_proxy(&mut self) {
        self.proxies.push(Proxy::with(self.config.clone()).await);
    }

    /// Stops all processes, calls `between` and starts them again.
    async fn restart_after(&mut self, between: impl FnOnce(&Config)) {
        let count = self.proxies.len();
        for proxy in self.proxies.drain(..) {
            proxy.stop().await;
        }
        between(&self.config);
        for _ in 0..count {
            self.add_proxy().await;
        }
    }

    /// Restarts all processes.
    pub(super) async fn restart(&mut self) {
        self.restart_after(|_| ()).await;
    }

    /// Restarts all processes without the file of their store.
    pub(super) async fn purge(&mut self) {
        self.restart_after(|config| {
            if let StoreLocation::File(file) = &config.store.location {
                std::fs::remove_file(file).unwrap();
            }
        })
        .await;
    }

    pub(super) fn caller(&self) -> Caller {
        Caller::of(self.proxies[0].address)
    }

    /// Asks through the process with this index.
    pub(super) async fn ask_through(&self, process: usize, body: &Value) -> ReceivedReply {
        let fields = [("x-api-key", "k"), ("anthropic-version", "2023-06-01")];
        Caller::of(self.proxies[process].address)
            .ask_at("/v1/messages?beta=true", &fields, body.to_string())
            .await
    }

    pub(super) async fn ask(&self, body: &Value) -> ReceivedReply {
        self.ask_as(("x-api-key", "k"), body).await
    }

    pub(super) async fn ask_as(&self, credential: (&str, &str), body: &Value) -> ReceivedReply {
        let fields = [credential, ("anthropic-version", "2023-06-01")];
        self.caller().ask_at("/v1/messages?beta=true", &fields, body.to_string()).await
    }

    /// Asks for the token count of a request.
    pub(super) async fn count(&self, body: &Value) -> ReceivedReply {
        let fields = [("x-api-key", "k"), ("anthropic-version", "2023-06-01")];
        let target = "/v1/messages/count_tokens?beta=true";
        self.caller().ask_at(target, &fields, body.to_string()).await
    }

    pub(super) fn last(&self) -> SeenRequest {
        self.model.seen().pop().unwrap()
    }
}

/// Returns a recorded session of several windows, with the output that it asks for.
pub(super) fn session() -> Value {
    let (_, body) =
        sessions().into_iter().find(|(name, _)| name.starts_with("cli-3a782158")).unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["max_tokens"] = json!(4_000);
    body.as_object_mut().unwrap().remove("thinking");
    body
}

/// Returns the request of a session that ends with its first `upto` messages.
pub(super) fn request(session: &Value, upto: usize) -> Value {
    let mut body = session.clone();
    body["messages"].as_array_mut().unwrap().truncate(upto);
    body
}

#[tokio::test]
async fn session_of_several_windows_is_answered_completely() {
    let setup = Setup::start(64_000, |_| ()).await;
    let session = session();
    let messages = session["messages"].as_array().unwrap();
    let ends = (1..=messages.len()).filter(|end| messages[end - 1]["role"] == "user");
    let (mut compacted, mut asked) = (0, 0);
    for end in ends.step_by(5) {
        let reply = setup.ask(&request(&session, end)).await;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{end}: {text}");
        assert!(text.contains("message_stop"), "{text}");
        let seen = setup.last();
        assert_eq!(seen.verdict, Verdict::Accepted);
        compacted += usize::from(String::from_utf8_lossy(&seen.body).contains(STANDS_FOR_HISTORY));
        asked += 1;
    }
    assert!(compacted > 2, "{compacted} of {asked}");
    let broken = setup.model.seen();
    let mut broken = broken.iter().filter(|seen| matches!(seen.verdict, Verdict::Broken(_)));
    assert!(broken.next().is_none());
}

#[tokio::test]
async fn retry_of_a_refused_request_fits_and_keeps_query_and_headers() {
    for stream in [true, false] {
        let setup = Setup::start(40_000, |config| {
            config.compaction.proactive = false;
            config.compaction.prune = false;
        })
        .await;
        let mut body = session();
        body["stream"] = json!(stream);
        let reply = setup.ask(&body).await;
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        let seen = setup.model.seen();
        let verdicts: Vec<Verdict> = seen.iter().map(|it| it.verdict).collect();
        assert_eq!(verdicts, [Verdict::Overflowed, Verdict::Accepted]);
        // The caller's own fields reach the upstream, and the query stays.
        assert_eq!(seen[1].target, "/v1/messages?beta=true");
        assert_eq!(seen[1].headers["x-api-key"], "k");
        assert_eq!(seen[1].headers["anthropic-version"], "2023-06-01");
    }
}

/// A login serves only requests like those of the live conversation. A request that waits for a summary
/// takes a digest instead of a transcript call.
#[tokio::test]
async fn login_token_causes_no_summary_call_unlike_an_api_key() {
    let login = ("authorization", "Bearer sk-ant-oat01-x");
    for (credential, calls) in [(("x-api-key", "k"), true), (login, false)] {
        let setup = Setup::start(40_000, |config| {
            config.summary.model = SummaryModel::SameAsConversation;
            config.compaction.proactive = false;
            config.compaction.prune = false;
        })
        .await;
        let reply = setup.ask_as(credential, &session()).await;
        assert_eq!(reply.status, 200, "{}", credential.0);
        let seen = setup.model.seen();
        let called = seen.iter().any(|it| it.kind == RequestKind::Summary);
        assert_eq!(called, calls, "{}", credential.0);
    }
}

#[tokio::test]
async fn summary_calls_of_a_login_obey_every_rule_behind_system_messages() {
    let setup = Setup::start(48_000, |config| {
        let cached = [("summary.style", "cached")];
        config.summary = Config::default_with(cached).unwrap().summary;
    })
    .await;
    let instruction = "condense the conversation above".to_owned();
    setup.model.change(|options| options.summary_instruction = Some(instruction.clone()));
    let login = ("authorization", "Bearer sk-ant-oat01-x");
    let mut session = session();
    // After each batch of results, Claude Code states the tokens left to newer models.
    let told = json!({"role": "system", "content": "<total_tokens>9 tokens left</total_tokens>"});
    let messages = session["messages"].as_array_mut().unwrap();
    let is_results = |message: &Value| message["content"][0]["type"] == "tool_result";
    let told = messages.iter().flat_map(|message| {
        let told = is_results(message).then(|| told.clone());
        std::iter::once(message.clone()).chain(told)
    });
    *messages = told.collect();
    let count = messages.len();
    for end in (1..=count).filter(|end| session["messages"][end - 1]["role"] != "assistant") {
        if session["messages"][end]["role"] == "system" || end % 4 > 1 {
            continue;
        }
        let reply = setup.ask_as(login, &request(&session, end)).await;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{end}: {text}");
    }
    let seen = setup.model.seen();
    assert!(seen.iter().all(|it| !matches!(it.verdict, Verdict::Broken(_))));
    assert!(seen.iter().any(|it| it.kind == RequestKind::Summary));
}

/// Claude Code bills each request by a block of the system prompt, in which `cch=` may change.
#[tokio::test]
async fn summaries_are_used_behind_a_block_that_bills_each_request() {
    let mut played = Vec::new();
    for changes in [false, true] {
        let setup = Setup::start(64_000, |config| {
            let cached = [("summary.style", "cached")];
            config.summary = Config::default_with(cached).unwrap().summary;
        })
        .await;
        let instruction = "condense the conversation above".to_owned();
        setup.model.change(|options| options.summary_instruction = Some(instruction.clone()));
        let login = ("authorization", "Bearer sk-ant-oat01-x");
        let mut session = session();
        let count = session["messages"].as_array().unwrap().len();
        for end in (1..=count).filter(|end| end % 4 == 1) {
            let number = if changes { end } else { 0 };
            let bill = format!("x-anthropic-billing-header: cc_version=2.1.0; cch={number:05x};");
            session["system"] = json!([{"type": "text", "text": bill},
                {"type": "text", "text": "You code.", "cache_control": {"type": "ephemeral"}}]);
            let reply = setup.ask_as(login, &request(&session, end)).await;
            assert_eq!(reply.status, 200, "{end}");
            let body = setup.last().body;
            assert!(String::from_utf8_lossy(&body).contains(&bill), "{end}");
        }
        let seen = setup.model.seen();
        let calls = seen.iter().filter(|it| it.kind == RequestKind::Summary);
        let sizes: Vec<usize> = seen.iter().map(|it| it.body.len()).collect();
        played.push((calls.count(), sizes));
    }
    assert!(played[0].0 > 0);
    assert_eq!(played[0], played[1]);
}

#[tokio::test]
async fn a_request_that_fits_passes_byte_for_byte() {
    let setup = Setup::start(400_000, |_| ()).await;
    let body = json!({"max_tokens": 10, "model": "m", "system": [{"type": "text", "text": "s"}],
        "messages": [{"role": "user", "content": "hi"}]});
    let reply = setup.ask(&body).await;
    assert_eq!(reply.status, 200);
    let message: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(message["type"], "message");
    assert_eq!(setup.last().body, body.to_string());
}

#[tokio::test]
async fn requests_with_provider_side_history_pass_byte_for_byte() {
    for member in [
        json!({"thread": {"type": "create"}}),
        json!({"compaction": {"type": "summarize"}}),
        json!({"context_management": {"edits": [{"type": "compact_20260112"}]}}),
    ] {
        let setup = Setup::start(40_000, |_| ()).await;
        let mut body = session();
        let (name, value) = member.as_object().unwrap().iter().next().unwrap();
        body[name] = value.clone();
        let reply = setup.ask(&body).await;
        assert_eq!(reply.status, 400, "{member}");
        let [seen] = &setup.model.seen()[..] else {
            panic!("{member}: sent more than once");
        };
        assert_eq!(seen.body, body.to_string(), "{member}");
    }
}

#[tokio::test]
async fn provider_side_clearing_disables_pruning_but_not_recovery() {
    let setup = Setup::start(40_000, |_| ()).await;
    let mut body = session();
    body["context_management"] = json!({"edits": [{"type": "clear_tool_uses_20250919"}]});
    let reply = setup.ask(&body).await;
    assert_eq!(reply.status, 200);
    let seen = setup.model.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, body.to_string());
}

#[tokio::test]
async fn sibling_paths_are_never_changed() {
    let setup = Setup::start(40_000, |_| ()).await;
    let body = session().to_string();
    for path in ["/v1/messages/batches", "/v1/threads/t/messages", "/v1/files"] {
        setup.caller().ask_at(path, &[], body.clone()).await;
        let seen = setup.last();
        assert_eq!((&*seen.target, &*seen.body), (path, body.as_bytes()));
    }
}

#[tokio::test]
async fn longhaul_errors_have_the_messages_api_shape() {
    let nobody = crate::harness::Nobody::bind();
    let proxy = Proxy::start(&nobody.base(""), &[]).await;
    let body = json!({"model": "m", "max_tokens": 9, "messages": []}).to_string();
    let reply = Caller::of(proxy.address).ask_at("/v1/messages", &[], body).await;
    let error: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(error["type"], "error");
    assert_eq!(error["error"]["type"], "api_error");
    assert!(error["error"]["message"].is_string());
}

#[tokio::test]
async fn retries_smaller_if_an_empty_reply_reports_a_full_window() {
    let json_head = "content-type: application/json\r\n";
    let full = r#"{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":"model_context_window_exceeded","usage":{"input_tokens":202700,"output_tokens":0}}"#;
    let answer = r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"on"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":1}}"#;
    let replies = vec![Reply::new(200, json_head, full), Reply::new(200, json_head, answer)];
    let (address, asked) = scripted::upstream(replies).await;
    let base = format!("http://{address}");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    let mut body = session();
    body["stream"] = json!(false);
    let caller = Caller::of(proxy.address);
    let reply = caller.ask_at("/v1/messages", &[], body.to_string()).await;
    assert_eq!((reply.status, &*reply.body), (200, answer.as_bytes()));
    let asked = asked.await.unwrap();
    assert!(asked[1].len() < asked[0].len() * 9 / 10);
}

#[tokio::test]
async fn agents_of_one_session_are_conversations_of_their_own() {
    let setup = Setup::start(64_000, |_| ()).await;
    // Only a reply that longhaul acted on names its conversation.
    let body = session();
    let conversation = async |fields: &[(&str, &str)]| {
        let target = "/v1/messages?beta=true";
        let reply = setup.caller().ask_at(target, fields, body.to_string()).await;
        reply.headers["x-longhaul-conversation"].to_str().unwrap().to_owned()
    };
    let session = ("x-claude-code-session-id", "s");
    let agent = |id| [("x-api-key", "k"), session, ("x-claude-code-agent-id", id)];
    let main = conversation(&[("x-api-key", "k"), session]).await;
    let (one, other) = (conversation(&agent("1")).await, conversation(&agent("2")).await);
    assert!(main != one && one != other && main != other);
    assert_eq!(conversation(&agent("1")).await, one);
}

#[tokio::test]
async fn refused_output_limit_is_lowered_before_the_next_send() {
    let setup = Setup::start(64_000, |_| ()).await;
    let mut body = request(&session(), 9);
    body["max_tokens"] = json!(63_000);
    for turn in 0..3 {
        assert_eq!(setup.ask(&body).await.status, 200);
        let more = [
            json!({"role": "assistant", "content": format!("step {turn}")}),
            json!({"role": "user", "content": "go on"}),
        ];
        body["messages"].as_array_mut().unwrap().extend(more);
    }
    let seen = setup.model.seen();
    let verdicts: Vec<Verdict> = seen.iter().map(|it| it.verdict).collect();
    let [first, rest @ ..] = &verdicts[..] else {
        panic!("nothing was sent");
    };
    assert_eq!(*first, Verdict::Overflowed);
    assert_eq!(rest, [Verdict::Accepted; 3]);
    assert!(seen[1..].iter().all(|it| it.max_output.unwrap() > 3_000));
}

#[tokio::test]
async fn output_limit_is_not_lowered_below_the_thinking_budget() {
    let setup = Setup::start(64_000, |_| ()).await;
    let mut body = request(&session(), 9);
    body["max_tokens"] = json!(63_900);
    body["thinking"] = json!({"type": "enabled", "budget_tokens": 63_000});
    setup.ask(&body).await;
    let sent = |seen: &SeenRequest| seen.max_output.unwrap();
    assert!(setup.model.seen().iter().all(|seen| sent(seen) == 63_900));
}
