//! The Messages API under the paths of clouds, which name the model in place of the body.

use longhaul::Config;
use longhaul::config::{Mode, SummaryModel};
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{ErrorFamily, ModelOptions, RequestKind, SeenRequest, Verdict, frame};
use serde_json::{Value, json};

use super::proxied::{STANDS_FOR_HISTORY, Setup, request, session};
use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;
use crate::received_reply::ReceivedReply;
use crate::recovery::scripted::{self, Reply};

const TOKEN: (&str, &str) = ("authorization", "Bearer ya29.a");
const DATED: &str = "claude-opus-4-5@20251101";
const JSON: &str = "content-type: application/json\r\n";
const FRAMES: &str = "content-type: application/vnd.amazon.eventstream\r\n";

/// A form of the API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Bedrock,
    Google,
}

const FORMS: [Form; 2] = [Form::Google, Form::Bedrock];

fn google(project: &str, verb: &str) -> String {
    format!("/v1/projects/{project}/locations/global/publishers/anthropic/models/{verb}")
}

impl Form {
    /// Returns the target of a chat.
    fn target(self, streams: bool) -> String {
        match (self, streams) {
            (Self::Google, true) => google("p", &format!("{DATED}:streamRawPredict")),
            (Self::Google, false) => google("p", &format!("{DATED}:rawPredict")),
            (Self::Bedrock, true) => {
                "/model/us.anthropic.claude-opus-4-5-v1%3A0/invoke-with-response-stream".to_owned()
            }
            (Self::Bedrock, false) => {
                "/model/us.anthropic.claude-opus-4-5-v1%3A0/invoke".to_owned()
            }
        }
    }

    /// Returns a body in this form.
    fn body(self, body: &Value, streams: bool) -> Value {
        let mut body = body.clone();
        let members = body.as_object_mut().unwrap();
        members.remove("model");
        members.remove("stream");
        let version = match self {
            Self::Bedrock => "bedrock-2023-05-31",
            Self::Google => "vertex-2023-10-16",
        };
        members.insert("anthropic_version".to_owned(), json!(version));
        if self == Self::Google && streams {
            members.insert("stream".to_owned(), json!(true));
        }
        body
    }
}

impl Setup {
    async fn ask_in(&self, form: Form, body: &Value, streams: bool) -> ReceivedReply {
        let body = form.body(body, streams).to_string();
        self.caller().ask_at(&form.target(streams), &[TOKEN], body).await
    }

    async fn ask_google(&self, project: &str, fields: &[(&str, &str)], body: &Value) {
        let target = google(project, &format!("{DATED}:rawPredict"));
        let body = Form::Google.body(body, false).to_string();
        let reply = self.caller().ask_at(&target, fields, body).await;
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    }

    fn verdicts(&self) -> Vec<Verdict> {
        self.model.seen().iter().map(|it| it.verdict).collect()
    }
}

fn only_recovery(config: &mut Config) {
    config.compaction.proactive = false;
    config.compaction.prune = false;
}

fn stands_for_history(seen: &SeenRequest) -> bool {
    String::from_utf8_lossy(&seen.body).contains(STANDS_FOR_HISTORY)
}

fn text(reply: &ReceivedReply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

#[tokio::test]
async fn a_refused_request_is_compacted_in_the_form_of_the_cloud() {
    for form in FORMS {
        for streams in [true, false] {
            let setup = Setup::start(40_000, only_recovery).await;
            let reply = setup.ask_in(form, &session(), streams).await;
            assert_eq!(reply.status, 200, "{form:?}: {}", text(&reply));
            assert_eq!(setup.verdicts(), [Verdict::Overflowed, Verdict::Accepted], "{form:?}");
            let seen = setup.last();
            assert_eq!(seen.target, form.target(streams));
            assert!(stands_for_history(&seen));
            match (form, streams) {
                (Form::Google, true) => assert!(text(&reply).contains("message_stop")),
                (Form::Bedrock, true) => assert_eq!(reply.body[0], 0, "frames are relayed"),
                (_, false) => assert!(text(&reply).starts_with('{')),
            }
        }
    }
}

#[tokio::test]
async fn a_session_of_several_windows_breaks_no_rule_of_a_cloud() {
    for form in FORMS {
        let own = |config: &mut Config| config.summary.model = SummaryModel::SameAsConversation;
        let setup = Setup::start(48_000, own).await;
        let session = session();
        let messages = session["messages"].as_array().unwrap();
        let ends = (1..=messages.len()).filter(|end| messages[end - 1]["role"] == "user");
        for end in ends.step_by(2) {
            let reply = setup.ask_in(form, &request(&session, end), true).await;
            assert_eq!(reply.status, 200, "{form:?}, {end}: {}", text(&reply));
        }
        let seen = setup.model.seen();
        assert!(seen.iter().all(|it| !matches!(it.verdict, Verdict::Broken(_))), "{form:?}");
        assert!(seen.iter().filter(|it| stands_for_history(it)).count() > 1, "{form:?}");
        // A summary is not streamed, at the path of the conversation's own model.
        let calls = seen.iter().filter(|it| it.kind == RequestKind::Summary);
        let targets: Vec<&str> = calls.map(|it| &*it.target).collect();
        assert!(!targets.is_empty(), "{form:?}");
        assert!(targets.iter().all(|it| *it == form.target(false)), "{form:?}: {targets:?}");
    }
}

#[tokio::test]
async fn calls_for_a_summary_name_another_model_in_the_path() {
    for (form, model, expect) in [
        (
            Form::Google,
            "claude-haiku-4-5@20251001",
            google("p", "claude-haiku-4-5@20251001:rawPredict"),
        ),
        (Form::Bedrock, "a/b", "/model/a%2Fb/invoke".to_owned()),
    ] {
        let named = |config: &mut Config| {
            only_recovery(config);
            config.summary.model = SummaryModel::Named(model.to_owned());
            config.summary.window = Some(Tokens::new(30_000));
        };
        let setup = Setup::start(40_000, named).await;
        let reply = setup.ask_in(form, &session(), true).await;
        assert_eq!(reply.status, 200, "{form:?}: {}", text(&reply));
        let seen = setup.model.seen();
        let call = seen.iter().find(|it| it.kind == RequestKind::Summary).unwrap();
        assert_eq!((&*call.target, call.verdict), (&*expect, Verdict::Accepted), "{form:?}");
    }
}

#[tokio::test]
async fn cached_calls_for_a_summary_have_the_form_of_the_cloud() {
    for form in FORMS {
        let setup = Setup::start(48_000, |config| {
            config.summary = Config::default_with([("summary.style", "cached")]).unwrap().summary;
        })
        .await;
        let instruction = "condense the conversation above".to_owned();
        setup.model.change(|options| options.summary_instruction = Some(instruction));
        let session = session();
        let messages = session["messages"].as_array().unwrap();
        let ends = (1..=messages.len()).filter(|end| messages[end - 1]["role"] == "user");
        for end in ends.step_by(2) {
            setup.ask_in(form, &request(&session, end), true).await;
        }
        let seen =
            setup.model.wait_for(|seen| seen.iter().any(|it| it.kind == RequestKind::Summary));
        let seen = seen.await;
        for call in seen.iter().filter(|it| it.kind == RequestKind::Summary) {
            assert_eq!((&*call.target, call.verdict), (&*form.target(false), Verdict::Accepted));
        }
    }
}

#[tokio::test]
async fn a_window_is_learned_for_all_projects_of_a_caller() {
    let setup = Setup::start(40_000, |_| ()).await;
    let session = session();
    setup.ask_google("p", &[TOKEN], &session).await;
    assert_eq!(setup.verdicts(), [Verdict::Overflowed, Verdict::Accepted]);
    // Another conversation of another project.
    let mut other = session.clone();
    other["messages"][0]["content"] = json!("Another task.");
    setup.ask_google("q", &[TOKEN], &other).await;
    assert_eq!(setup.verdicts()[2..], [Verdict::Accepted]);
    setup.ask_google("p", &[("authorization", "Bearer ya29.b")], &other).await;
    assert_eq!(setup.verdicts()[3..], [Verdict::Overflowed, Verdict::Accepted]);
}

#[tokio::test]
async fn records_belong_to_a_project_and_to_the_header_of_the_scope_or_the_token() {
    let by_header = |config: &mut Config| {
        only_recovery(config);
        let header = [("store.scope", "header:x-user"), ("store.trusted_headers", "x-user")];
        let header = Config::default_with(header).unwrap();
        config.store.scope = header.store.scope;
    };
    let (user, other) = (("x-user", "1"), ("x-user", "2"));
    let renewed = ("authorization", "Bearer ya29.b");
    let session = session();
    for (project, fields, finds) in [
        ("p", &[TOKEN, user][..], true),
        ("p", &[renewed, user], true),
        ("q", &[TOKEN, user], false),
        ("p", &[TOKEN, other], false),
        ("p", &[TOKEN], false),
    ] {
        let setup = Setup::start(90_000, by_header).await;
        setup.ask_google("p", &[TOKEN, user], &session).await;
        setup.ask_google(project, fields, &session).await;
        let refused = setup.verdicts()[2..].contains(&Verdict::Overflowed);
        assert_eq!(refused, !finds, "{project}, {fields:?}: {:?}", setup.verdicts());
        let seen = setup.model.seen();
        assert!(seen.iter().all(|it| !it.headers.contains_key("x-user")));
    }
    let setup = Setup::start(90_000, only_recovery).await;
    setup.ask_google("p", &[TOKEN], &session).await;
    setup.ask_google("p", &[renewed], &session).await;
    assert_eq!(setup.verdicts()[2..], [Verdict::Overflowed, Verdict::Accepted]);
}

#[tokio::test]
async fn a_count_at_google_is_one_of_the_forwarded_conversation() {
    let setup = Setup::start(64_000, |_| ()).await;
    let session = session();
    setup.ask_google("p", &[TOKEN], &session).await;
    assert!(stands_for_history(&setup.last()));
    let mut body = session.clone();
    body["model"] = json!(DATED);
    for name in ["max_tokens", "stream"] {
        body.as_object_mut().unwrap().remove(name);
    }
    let target = google("p", "count-tokens:rawPredict");
    let reply = setup.caller().ask_at(&target, &[TOKEN], body.to_string()).await;
    assert_eq!(reply.status, 200, "{}", text(&reply));
    let count: Value = serde_json::from_slice(&reply.body).unwrap();
    assert!(count["input_tokens"].as_u64().unwrap() < 64_000);
    let seen = setup.last();
    assert!(stands_for_history(&seen));
    assert_eq!(seen.target, target);
}

/// Asks through a proxy with an upstream that gives these replies. Returns the replies that arrive and the
/// bodies that the upstream receives.
async fn scripted(
    form: Form,
    replies: Vec<Reply>,
    asks: usize,
) -> (Vec<ReceivedReply>, Vec<Vec<u8>>, String) {
    let (address, asked) = scripted::upstream(replies).await;
    let base = format!("http://{address}");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    only_recovery(&mut config);
    let proxy = Proxy::with(config).await;
    let caller = Caller::of(proxy.address);
    let body = form.body(&session(), true).to_string();
    let mut arrived = Vec::new();
    for _ in 0..asks {
        arrived.push(caller.ask_at(&form.target(true), &[TOKEN], body.clone()).await);
    }
    (arrived, asked.await.unwrap(), body)
}

#[tokio::test]
async fn a_quota_is_no_overflow_and_teaches_nothing() {
    let metric =
        "aiplatform.googleapis.com/online_prediction_input_tokens_per_minute_per_base_model";
    let error = json!({"error": {"code": 429, "message": format!("Quota exceeded for {metric} with base model: anthropic-claude-opus. Please submit a quota increase request."), "status": "RESOURCE_EXHAUSTED"}});
    let answer = r#"{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":1}}"#;
    let cases = [
        (Form::Google, json!([error]).to_string()),
        (Form::Google, error.to_string()),
        (
            Form::Bedrock,
            r#"{"message":"Too many tokens, please wait before trying again."}"#.into(),
        ),
    ];
    for (form, refusal) in cases {
        let replies = vec![Reply::new(429, JSON, refusal.clone()), Reply::new(200, JSON, answer)];
        let (arrived, asked, body) = scripted(form, replies, 2).await;
        assert_eq!((arrived[0].status, text(&arrived[0])), (429, refusal));
        assert_eq!(text(&arrived[1]), answer);
        assert!(asked.iter().all(|it| it == body.as_bytes()), "{form:?}");
    }
}

fn exception(kind: &str, message: &str) -> Vec<u8> {
    let headers = [
        (":exception-type", kind),
        (":content-type", "application/json"),
        (":message-type", "exception"),
    ];
    frame(&headers, json!({ "message": message }).to_string().as_bytes())
}

fn event() -> Vec<u8> {
    let headers = [(":event-type", "chunk"), (":message-type", "event")];
    frame(&headers, br#"{"bytes":"e30="}"#)
}

#[tokio::test]
async fn an_overflow_in_the_first_frame_is_retried() {
    let prefixed = "The model returned the following errors: prompt is too long: 203884 tokens > 200000 maximum";
    for message in ["Input is too long for requested model.", prefixed] {
        let refused = exception("validationException", message);
        let answer = [event(), event()].concat();
        let replies =
            vec![Reply::new(200, FRAMES, refused), Reply::new(200, FRAMES, answer.clone())];
        let (arrived, asked, body) = scripted(Form::Bedrock, replies, 1).await;
        assert_eq!(&*arrived[0].body, &*answer, "{message}");
        assert_eq!(arrived[0].headers["content-type"], "application/vnd.amazon.eventstream");
        assert_eq!(asked[0], body.as_bytes());
        assert!(asked[1].len() < body.len());
    }
}

#[tokio::test]
async fn other_frames_are_relayed_as_they_come() {
    let overflow = exception("validationException", "Input is too long for requested model.");
    let mut cut = overflow.clone();
    cut.truncate(30);
    let mut odd = overflow.clone();
    odd[7] = 255;
    let mut long = overflow.clone();
    long[1] = 200;
    for reply in [
        exception("throttlingException", "Too many tokens, please wait before trying again."),
        exception("internalServerException", "The system encountered an unexpected error."),
        [event(), overflow].concat(),
        cut,
        odd,
        long,
        vec![0; 3],
        vec![0; 100],
    ] {
        let replies = vec![Reply::new(200, FRAMES, reply.clone())];
        let (arrived, asked, body) = scripted(Form::Bedrock, replies, 1).await;
        assert_eq!(&*arrived[0].body, &*reply);
        assert_eq!(asked, [body.as_bytes()]);
    }
}

#[tokio::test]
async fn the_body_of_another_model_or_another_form_passes_unread() {
    let nova = json!({"messages": [{"role": "user", "content": [{"text": "x".repeat(900_000)}]}]});
    let counted = json!({"input": {"invokeModel": {"body": "e30="}}});
    for (target, body) in
        [("/model/amazon.nova-pro-v1%3A0/invoke", nova), ("/model/m/count-tokens", counted)]
    {
        let (address, asked) = scripted::upstream(vec![Reply::new(200, JSON, "{}")]).await;
        let proxy = Proxy::start(&format!("http://{address}"), &[]).await;
        let body = body.to_string();
        Caller::of(proxy.address).ask_at(target, &[TOKEN], body.clone()).await;
        assert_eq!(asked.await.unwrap(), [body.as_bytes()], "{target}");
    }
}

const SIGNED: (&str, &str) = (
    "authorization",
    "AWS4-HMAC-SHA256 Credential=AKID/20261129/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=0",
);

#[tokio::test]
async fn a_signed_request_to_a_host_that_checks_signatures_gets_one_clear_error() {
    let invoke = Form::Bedrock.target(true);
    for base in [
        "https://bedrock-runtime.us-east-1.amazonaws.com",
        "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1",
        "https://aws-external-anthropic.us-east-1.api.aws",
    ] {
        let proxy = Proxy::start(base, &[]).await;
        for (target, place) in [(&*invoke, "/message"), ("/v1/messages", "/error/message")] {
            let caller = Caller::of(proxy.address);
            let reply = caller.ask_at(target, &[SIGNED], "{}").await;
            assert_eq!(reply.status, 403, "{base}");
            assert_eq!(reply.headers["x-longhaul-fault"], "foreign_signature");
            let error: Value = serde_json::from_slice(&reply.body).unwrap();
            let message = error.pointer(place).unwrap().as_str().unwrap();
            assert!(message.contains("AWS_BEARER_TOKEN_BEDROCK"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_signed_request_to_any_other_host_passes_unedited() {
    let options = ModelOptions::with_window(40_000).refusing_as(ErrorFamily::Anthropic);
    let setup = Setup::at(options, |_| ()).await;
    let body = Form::Bedrock.body(&session(), true).to_string();
    let reply = setup.caller().ask_at(&Form::Bedrock.target(true), &[SIGNED], body.clone()).await;
    assert_eq!(reply.status, 401, "the model takes no signature");
    assert_eq!(setup.last().body, body);
    assert_eq!(setup.model.seen().len(), 1);
}

#[tokio::test]
async fn nothing_changes_while_longhaul_is_off() {
    for form in FORMS {
        let setup = Setup::start(40_000, |config| config.mode = Mode::Off).await;
        let reply = setup.ask_in(form, &session(), true).await;
        assert_eq!(reply.status, 400, "{form:?}");
        assert_eq!(setup.last().body, form.body(&session(), true).to_string(), "{form:?}");
    }
}
