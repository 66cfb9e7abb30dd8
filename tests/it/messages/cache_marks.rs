//! Cache marks for clients that send none: what they save, and what stays as it came.

use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{
    ModelOptions, PreservedThinking, SeenRequest, ThinkingRules, TokenDensity, Verdict,
};
use serde_json::{Value, json};

use super::proxied::Setup;
use super::thinking::{Agent, Keeps, SESSIONS};
use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::{Journey, bodies};
use crate::recovery::scripted::{self, Reply};
use crate::sessions::named;

const KEY: &str = "\"cache_control\"";
const HOST: &str = "127.0.0.1";

/// Removes all marks, and counts them.
fn strip(value: &mut Value) -> usize {
    match value {
        Value::Array(items) => items.iter_mut().map(strip).sum(),
        Value::Object(members) => {
            let own = usize::from(members.remove("cache_control").is_some());
            own + members.values_mut().map(strip).sum::<usize>()
        }
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Replaces each array of one text part by its text, as the APIs read both alike.
fn flatten(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(flatten);
            if let [part] = items.as_slice()
                && part["type"] == "text"
                && part.as_object().unwrap().len() == 2
            {
                *value = part["text"].clone();
            }
        }
        Value::Object(members) => members.values_mut().for_each(flatten),
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
    }
}

/// The price of the prompts, in hundredths of the price of a token.
fn bill(seen: &[SeenRequest]) -> u64 {
    let weigh = |it: &SeenRequest| {
        100 * it.prompt_tokens + 25 * it.cache_written_tokens - 90 * it.cached_tokens
    };
    seen.iter().filter(|it| it.verdict == Verdict::Accepted).map(weigh).sum()
}

/// Plays a session of the Messages API without marks, at these hosts with marks.
async fn play(name: &str, rules: ThinkingRules, hosts: &[&str]) -> Vec<SeenRequest> {
    let setup = Setup::start(60_000, |config| {
        config.window = Tokens::new(45_000);
        config.mark_hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    })
    .await;
    setup.model.change(|options| options.thinking = rules);
    let thinking = json!({"type": "adaptive"});
    let mut agent = Agent::new(name, "claude-opus-5-5", thinking, Keeps::All);
    for end in agent.ends.clone() {
        let mut body = agent.request(end);
        strip(&mut body);
        let reply = setup.ask(&body).await;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{name} {end}: {text}");
        agent.take(end, &reply.body);
    }
    setup.model.seen()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_make_a_session_cheaper_and_no_thinking_stale() {
    let by_model = ThinkingRules::ByModel(PreservedThinking::default());
    for rules in [ThinkingRules::Bound, by_model] {
        for name in &SESSIONS[..2] {
            let without = play(name, rules, &[]).await;
            let with = play(name, rules, &["api.example", HOST]).await;
            let verdicts =
                |seen: &[SeenRequest]| seen.iter().map(|it| it.verdict).collect::<Vec<_>>();
            assert_eq!(verdicts(&with), verdicts(&without), "{name}");
            assert!(without.iter().all(|it| it.cached_tokens == 0));
            let (before, after) = (bill(&without), bill(&with));
            assert!(after * 2 < before, "{name}: {after} of {before}");
            let mut is_retry = false;
            for (with, without) in with.iter().zip(&without) {
                let verdict = with.verdict;
                let [mut with, mut without] =
                    [with, without].map(|it| serde_json::from_slice::<Value>(&it.body).unwrap());
                // Nothing repeats a first request without tools, and a retry goes without marks.
                let is_alone = with["messages"].as_array().unwrap().len() == 1;
                let is_first = is_alone && with["tools"].is_null();
                let marks = strip(&mut with);
                strip(&mut without);
                assert_eq!(marks, if is_first || is_retry { 0 } else { 2 }, "{name}");
                is_retry = verdict != Verdict::Accepted;
                [&mut with, &mut without].into_iter().for_each(flatten);
                assert_eq!(
                    with["messages"].as_array().map(Vec::len),
                    without["messages"].as_array().map(Vec::len)
                );
                assert_eq!(with["system"], without["system"], "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_of_a_chat_move_and_its_content_keeps_its_form() {
    let session = named("cli-0018").replay();
    let mut runs = Vec::new();
    for hosts in [&[][..], &[HOST.to_owned()]] {
        let options = ModelOptions { density: TokenDensity::STANDARD, ..ModelOptions::default() };
        let mut journey = Journey::start(options, |config| {
            crate::journey::digests(config);
            config.window = Tokens::new(32_768);
            config.mark_hosts = hosts.to_vec();
        })
        .await;
        let steps = journey.play(bodies(&session)).await;
        for (at, step) in steps.iter().enumerate() {
            let text = String::from_utf8_lossy(&step.arrived.body);
            assert!(step.arrived.is_answer(), "{hosts:?}, request {at}: {text}");
        }
        runs.push(steps);
    }
    let [without, with] = runs.try_into().ok().unwrap();
    assert_eq!(with.len(), without.len());
    let mut breaks = 0;
    for (at, (with, without)) in with.iter().zip(&without).enumerate() {
        let is_retry = with.upstream.len() == 2;
        let (with, without) = (with.forwarded(), without.forwarded());
        // The model hashes the form of each message, without marks.
        assert_eq!(with.keeps_prefix(), without.keeps_prefix(), "request {at}");
        breaks += usize::from(!with.keeps_prefix());
        let [mut with, mut without] =
            [with, without].map(|it| serde_json::from_slice::<Value>(&it.body).unwrap());
        let is_first = with["messages"].as_array().unwrap().len() <= 2 && with["tools"].is_null();
        let marks = strip(&mut with);
        let heads = usize::from(with["messages"][0]["role"] == "system");
        assert_eq!(marks, if is_first || is_retry { 0 } else { 1 + heads }, "request {at}");
        [&mut with, &mut without].into_iter().for_each(flatten);
        assert_eq!(with, without, "request {at}");
    }
    assert!(breaks > 1, "{breaks}");
}

const JSON: &str = "content-type: application/json\r\n";
const CHAT: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;
const MESSAGE: &str = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"on"}],"stop_reason":"end_turn"}"#;

/// Sends these bodies through a proxy that may mark. Returns what the upstream received.
async fn received(
    replies: &[(u16, &str)],
    settings: &[(&str, &str)],
    requests: &[(&str, &str)],
) -> Vec<String> {
    let scripted = replies.iter().map(|(status, body)| Reply::new(*status, JSON, *body));
    let (address, asked) = scripted::upstream(scripted.collect()).await;
    let settings = [&[("compact.mark_hosts", HOST), ("summary.model", "none")], settings].concat();
    let proxy = Proxy::start(&format!("http://{address}"), &settings).await;
    let caller = Caller::of(proxy.address);
    for (path, body) in requests {
        let reply = caller.ask_at(path, &[], (*body).to_owned()).await;
        assert_eq!(reply.status, 200, "{path}");
    }
    let asked = asked.await.unwrap();
    asked.into_iter().map(|body| String::from_utf8(body).unwrap()).collect()
}

const CHATS: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
/// A chat between two requests, and the same in Messages.
const ASKED: &str = r#"{"model":"claude-x","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#;

#[tokio::test]
async fn a_refusal_that_follows_marks_brings_the_original_and_no_further_marks() {
    for refusal in [
        r#"{"error":{"message":"messages.1.content.0.cache_control: Extra inputs are not permitted","type":"invalid_request_error"}}"#,
        r#"{"error":{"message":"property 'cache_control' is unsupported"}}"#,
        r#"{"error":{"message":"Unknown parameter: 'messages[0].content[0].cache_control'."}}"#,
        r#"{"error":{"message":"A maximum of 4 blocks with cache_control may be provided. Found 5."}}"#,
    ] {
        let replies = [(400, refusal), (200, CHAT), (200, CHAT)];
        let sent = received(&replies, &[], &[(CHATS, ASKED), (CHATS, ASKED)]).await;
        assert_eq!(sent[0].matches(KEY).count(), 2, "{refusal}");
        assert_eq!(&sent[1..], [ASKED; 2], "{refusal}");
    }
}

#[tokio::test]
async fn whatever_may_not_or_need_not_be_marked_passes_as_it_came() {
    let first = r#"{"model":"claude-x","messages":[{"role":"user","content":"a title"}]}"#;
    let marked = ASKED.replace(
        r#""content":"s""#,
        r#""content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]"#,
    );
    let other = ASKED.replace("claude-x", "gpt-x");
    let automatic =
        ASKED.replace("{\"model", "{\"cache_control\":{\"type\":\"ephemeral\"},\"model");
    let signed = ASKED.replace("{\"role\":\"system\",\"content\":\"s\"},", "");
    for (path, body, answer) in [
        (CHATS, first, CHAT),
        (CHATS, &*marked, CHAT),
        (CHATS, &other, CHAT),
        (CHATS, &automatic, CHAT),
        (MESSAGES, first, MESSAGE),
        ("/v1/messages/count_tokens", &*signed, r#"{"input_tokens":1}"#),
        (
            "/v1/responses",
            r#"{"model":"claude-x","input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#,
            r#"{"object":"response","status":"completed","output":[]}"#,
        ),
    ] {
        assert_eq!(received(&[(200, answer)], &[], &[(path, body)]).await, [body], "{path}");
    }
    for setting in [
        ("compact.mark_hosts", "openrouter.ai"),
        ("compact.overflow_disabled", "true"),
        ("mode", "shadow"),
    ] {
        assert_eq!(received(&[(200, CHAT)], &[setting], &[(CHATS, ASKED)]).await, [ASKED]);
    }
}
