//! Manual control: a path of the proxy's own, a command, and marks configured per model.

use std::process::Output;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use longhaul::Config;
use longhaul_mock_model::{
    Model, ModelOptions, RequestKind, SeenRequest, SummaryBehaviour, ValidityRules,
};

use crate::caller::{Caller, chat, talk};
use crate::journey::{Journey, STANDS_FOR_HISTORY, digests};
use crate::oracle::reader::messages;
use crate::program::{Program, fed};
use crate::received_reply::ReceivedReply;

/// Larger than anything here.
const HUGE: u64 = 10_000_000;
const CONTINUE: &str = r#"{"role":"user","content":"Continue if you have next steps"}"#;

/// Requests `path` from a proxy whose base URL is `url`.
pub(crate) async fn ask(
    (method, url, path): (Method, &str, &str),
    fields: &[(&str, &str)],
    body: &[u8],
) -> ReceivedReply {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let origin = url.strip_suffix("/v1").unwrap();
    let mut request = Request::builder().method(method).uri(format!("{origin}{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let body = Full::new(Bytes::copy_from_slice(body));
    let request = request.body(body).unwrap();
    ReceivedReply::read(client.request(request).await.unwrap()).await
}

/// Compacts a chat through the proxy's own path.
pub(crate) async fn compact(url: &str, body: &[u8]) -> ReceivedReply {
    ask((Method::POST, url, "/__longhaul__/compact"), &[], body).await
}

fn summaries(seen: &[SeenRequest]) -> usize {
    let summary = |seen: &&SeenRequest| seen.kind == RequestKind::Summary;
    seen.iter().filter(summary).count()
}

/// Checks a compacted body: smaller, in order, with its head and its end unchanged.
fn is_compacted(body: &[u8], compacted: &[u8]) {
    assert!(compacted.len() < body.len() * 3 / 4);
    let broken = ValidityRules::standard().broken_by(compacted);
    assert_eq!(broken.map(|rule| rule.id), None);
    let (before, after) = (messages(body), messages(compacted));
    assert_eq!(before.first(), after.first());
    assert_eq!(before.last(), after.last());
    let stands = after.iter().filter(|text| text.contains(STANDS_FOR_HISTORY));
    assert_eq!(stands.count(), 1);
}

async fn check_compacted(conduct: SummaryBehaviour, change: fn(&mut Config), action: &str) {
    let options = ModelOptions { summary: conduct, ..ModelOptions::with_window(HUGE) };
    let mut journey = Journey::start(options, change).await;
    let body = talk(20, 2_000);
    if action == "digest" {
        assert!(journey.step(body.clone()).await.arrived.is_answer());
    }
    let before = journey.model.seen().len();
    let compacted = compact(&journey.url(), &body).await;
    assert_eq!(compacted.status, 200);
    assert_eq!(compacted.headers["content-type"], "application/json");
    assert_eq!(compacted.action(), action);
    is_compacted(&body, &compacted.body);
    let chats = journey.model.seen().len() - before - summaries(&journey.model.seen());
    assert_eq!(chats, 0, "the chat itself is sent to nobody");
    let asked = summaries(&journey.model.seen());
    let step = journey.step(body).await;
    assert_eq!(step.forwarded().body, compacted.body, "the next request");
    assert_eq!(summaries(&journey.model.seen()), asked, "paid for once");
}

#[tokio::test]
async fn next_request_starts_from_the_manual_compaction() {
    check_compacted(SummaryBehaviour::Faithful, |_| (), "summary").await;
}

#[tokio::test]
async fn manual_compaction_makes_a_digest_without_a_summary_model() {
    check_compacted(SummaryBehaviour::Faithful, digests, "digest").await;
}

#[tokio::test]
async fn manual_compaction_makes_a_digest_if_the_summariser_fails() {
    for conduct in [SummaryBehaviour::Fails, SummaryBehaviour::None] {
        check_compacted(conduct, |_| (), "digest").await;
    }
}

#[tokio::test]
async fn manual_digest_is_not_stored_before_an_upstream_has_answered() {
    let refusing =
        ModelOptions { summary: SummaryBehaviour::Fails, ..ModelOptions::with_window(HUGE) };
    for change in [|_: &mut Config| (), digests] {
        let mut journey = Journey::start(refusing.clone(), change).await;
        let body = talk(20, 2_000);
        let compacted = compact(&journey.url(), &body).await;
        assert_eq!((compacted.status, compacted.action()), (200, "digest"));
        is_compacted(&body, &compacted.body);
        let step = journey.step(body.clone()).await;
        assert_eq!(step.forwarded().body, body);
    }
}

#[tokio::test]
async fn manual_compaction_works_with_recovery_disabled() {
    let without_overflow = |config: &mut Config| config.compaction.recover = false;
    check_compacted(SummaryBehaviour::Faithful, without_overflow, "summary").await;
}

#[tokio::test]
async fn compacting_twice_makes_one_summary_and_equal_bodies() {
    let journey = Journey::start(ModelOptions::with_window(HUGE), |_| ()).await;
    let body = talk(20, 2_000);
    let one = compact(&journey.url(), &body).await;
    let other = compact(&journey.url(), &body).await;
    assert_eq!(one.body, other.body);
    assert_eq!(summaries(&journey.model.seen()), 1);
}

#[tokio::test]
async fn repeated_compact_now_chat_makes_one_summary_and_equal_bodies() {
    let journey = Journey::start(ModelOptions::with_window(HUGE), |_| ()).await;
    let (url, body) = (journey.url(), talk(24, 2_000));
    let place = (Method::POST, url.as_str(), "/v1/chat/completions");
    for _ in 0..2 {
        let now = [("x-longhaul-compact", "now")];
        let arrived = ask(place.clone(), &now, &body).await;
        assert_eq!((arrived.status, arrived.action()), (200, "summary"));
    }
    let mut seen = journey.model.seen();
    assert_eq!(summaries(&seen), 1);
    seen.retain(|seen| seen.kind == RequestKind::Chat);
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test]
async fn manual_compaction_of_one_caller_is_not_used_for_another() {
    let journey = Journey::start(ModelOptions::with_window(HUGE), digests).await;
    let (url, body) = (journey.url(), talk(20, 2_000));
    let of = |key: &'static str, path: &'static str| {
        let (url, body) = (url.clone(), body.clone());
        async move {
            let fields = [("authorization", key)];
            ask((Method::POST, &url, path), &fields, &body).await
        }
    };
    for path in ["/v1/chat/completions", "/__longhaul__/compact"] {
        assert_eq!(of("Bearer a", path).await.status, 200);
    }
    assert_eq!(of("Bearer b", "/v1/chat/completions").await.action(), "");
    assert_eq!(of("Bearer a", "/v1/chat/completions").await.action(), "digest");
}

#[tokio::test]
async fn returns_the_body_unchanged_if_compaction_gains_nothing() {
    let journey = Journey::start(ModelOptions::with_window(HUGE), digests).await;
    let body = talk(1, 10);
    let arrived = compact(&journey.url(), &body).await;
    assert_eq!((arrived.status, arrived.action()), (200, ""));
    assert_eq!(arrived.body, body);
}

#[tokio::test]
async fn manual_reply_omits_report_headers_if_they_are_switched_off() {
    let silent = |config: &mut Config| {
        digests(config);
        config.report_headers = false;
    };
    let journey = Journey::start(ModelOptions::with_window(HUGE), silent).await;
    let body = talk(20, 2_000);
    let arrived = compact(&journey.url(), &body).await;
    is_compacted(&body, &arrived.body);
    let told = arrived.headers.keys().map(http::HeaderName::as_str);
    let told: Vec<_> = told.filter(|name| name.starts_with("x-longhaul")).collect();
    assert!(told.is_empty(), "{told:?}");
}

/// Checks the reply to a manual compaction request that cannot be fulfilled.
async fn check_refused(
    url: &str,
    (method, fields, body): (Method, &[(&str, &str)], &[u8]),
    status: u16,
    code: &str,
) {
    let arrived = ask((method, url, "/__longhaul__/compact"), fields, body).await;
    let said: serde_json::Value = serde_json::from_slice(&arrived.body).unwrap();
    assert_eq!(arrived.status, status, "{said}");
    assert_eq!(said["error"]["code"], code, "{said}");
}

#[tokio::test]
async fn rejects_invalid_manual_compactions_in_the_apis_error_shape() {
    let journey = Journey::start(ModelOptions::with_window(HUGE), digests).await;
    let url = journey.url();
    let body = talk(20, 2_000);
    for body in [b"{".as_slice(), b"", b"[]"] {
        check_refused(&url, (Method::POST, &[], body), 400, "not_a_chat").await;
    }
    let coded = [("content-encoding", "x-unknown")];
    check_refused(&url, (Method::POST, &coded, &body), 400, "not_a_chat").await;
    let off = [("x-longhaul-mode", "off")];
    check_refused(&url, (Method::POST, &off, &body), 403, "compaction_off").await;
    check_refused(&url, (Method::GET, &[], b""), 404, "reserved_path").await;
    assert!(journey.model.seen().is_empty());
}

#[tokio::test]
async fn reports_a_chat_beyond_a_limit_as_too_large_or_crowded() {
    let (body, huge) = (talk(20, 2_000), ModelOptions::with_window(HUGE));
    let check = async |bound: fn(&mut Config), status, code| {
        let journey = Journey::start(huge.clone(), bound).await;
        let asked = (Method::POST, &[][..], &*body);
        check_refused(&journey.url(), asked, status, code).await;
    };
    check(|config| config.limits.body_bytes = 1_000, 413, "chat_too_large").await;
    check(|config| config.limits.buffered_bytes = 1_000, 503, "crowded").await;
    let many = format!(r#"{{"messages":[{}{{}}]}}"#, r#"{"role":""},"#.repeat(300_000));
    let journey = Journey::start(huge.clone(), digests).await;
    let asked = (Method::POST, &[][..], many.as_bytes());
    check_refused(&journey.url(), asked, 413, "chat_too_large").await;
}

#[tokio::test]
async fn giving_up_logs_the_manual_options_verbatim() {
    let model = Model::start(ModelOptions::with_window(2_000)).await.unwrap();
    let program = Program::told(&model.url(), &[("LONGHAUL_SUMMARY_MODEL", "none")]);
    let body =
        format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "word ".repeat(4_000));
    let arrived = Caller::of(program.address()).ask(body).await;
    assert_eq!(arrived.action(), "gave-up");
    let log = program.ended();
    let words = "Context too large. Compaction failed. Use 'longhaul compact' or the header \
                 'x-longhaul-compact: now' to retry manually. Neither helps if one message";
    assert!(log.contains(words), "{log}");
}

// ---- the command

fn run(arguments: &[&str], environment: &[(&str, &str)], body: &[u8]) -> Output {
    fed(&[&["compact"], arguments].concat(), environment, body)
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn compact_command_works_without_a_network() {
    let body = talk(20, 2_000);
    let output = run(&["--summary-model", "none"], &[], &body);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    is_compacted(&body, &output.stdout);
    assert!(said(&output).contains("longhaul: digest: about"));
}

#[test]
fn compact_command_works_with_automatic_compaction_disabled() {
    let body = talk(20, 2_000);
    let settings = [("DISABLE_AUTOCOMPACT", "1")];
    let output = run(&["--summary-model", "none"], &settings, &body);
    is_compacted(&body, &output.stdout);
}

#[test]
fn continue_flag_appends_a_continue_message() {
    let body = talk(20, 2_000);
    let plain = run(&["--summary-model", "none"], &[], &body).stdout;
    let output = run(&["--summary-model", "none", "--continue"], &[], &body).stdout;
    let (plain, output) = (messages(&plain), messages(&output));
    let (last, rest) = output.split_last().unwrap();
    assert_eq!(rest, plain);
    assert_eq!(*last, CONTINUE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compact_command_uses_the_callers_key_and_never_logs_it() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let upstream = model.url();
    let body = talk(20, 2_000);
    let output = tokio::task::spawn_blocking(move || {
        let environment = [
            ("LONGHAUL_UPSTREAM", upstream.as_str()),
            ("OPENAI_API_KEY", "hunter2"),
            ("LONGHAUL_LOG_LEVEL", "trace"),
        ];
        let output = run(&[], &environment, &body);
        is_compacted(&body, &output.stdout);
        output
    })
    .await
    .unwrap();
    let seen = model.seen();
    assert_eq!((summaries(&seen), seen.len()), (1, 1));
    assert_eq!(seen[0].headers["authorization"], "Bearer hunter2");
    let said = said(&output);
    assert!(said.contains("longhaul: summary: about"), "{said}");
    assert!(said.contains("compacting"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn compact_command_learns_the_window_from_its_refused_summary_call() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let upstream = model.url();
    let body = talk(50, 2_000);
    let output = tokio::task::spawn_blocking(move || {
        let environment = [("LONGHAUL_UPSTREAM", upstream.as_str())];
        let output = run(&[], &environment, &body);
        is_compacted(&body, &output.stdout);
        output
    })
    .await
    .unwrap();
    let told = said(&output);
    assert!(told.contains("window=32768"), "{told}");
    assert!(told.contains("longhaul: summary: about"), "{told}");
    assert!(!told.contains("--window"), "{told}");
    let seen = model.seen();
    let statuses: Vec<u16> = seen.iter().map(|call| call.status).collect();
    assert_eq!((summaries(&seen), statuses), (2, vec![400, 200]), "{told}");
    assert!(seen[1].prompt_tokens < 32_768);
    // The model that refused the conversation accepts what is left of it.
    let base: http::Uri = model.url().parse().unwrap();
    let address = base.authority().unwrap().as_str().parse().unwrap();
    let reply = Caller::of(address).ask(output.stdout).await;
    assert_eq!(reply.status, 200);
}

#[test]
fn compact_command_reports_each_error_with_its_exit_code() {
    let check = |arguments: &[&str], environment: &[(&str, &str)], body: &[u8], code, words| {
        let output = run(arguments, environment, body);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(output.stdout.is_empty());
    };
    let body = talk(20, 2_000);
    check(&[], &[], b"{", 65, "not a valid request of a chat");
    check(&["/nowhere/at-all.json"], &[], b"", 66, "cannot read");
    let off = [("LONGHAUL_MODE", "off")];
    check(&[], &off, &body, 64, "--mode on");
    let small = [("LONGHAUL_LIMITS_BODY", "1KiB")];
    check(&[], &small, &body, 65, "limits.body");
}

#[test]
fn compact_command_reports_an_unreachable_upstream_with_hints() {
    let away = [("LONGHAUL_UPSTREAM", "http://127.0.0.1:1/v1")];
    let output = run(&[], &away, &talk(20, 2_000));
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for words in [
        "connecting to the upstream http://127.0.0.1:1 failed",
        "check that the server is running",
        "OPENAI_API_KEY is not set",
    ] {
        assert!(told.contains(words), "{words:?} is not in: {told}");
    }
    let endpoint = [
        ("LONGHAUL_SUMMARY_UPSTREAM", "http://127.0.0.1:1/v1"),
        ("LONGHAUL_SUMMARY_MODEL", "small"),
    ];
    for other in [&[("LONGHAUL_UPSTREAM_API_KEY", "sk-1")][..], &endpoint] {
        let told = said(&run(&[], &[&away[..], other].concat(), &talk(20, 2_000)));
        assert!(told.contains("digest"), "{told}");
        assert!(!told.contains("OPENAI_API_KEY"), "{told}");
    }
    let small = said(&run(&[], &away, &talk(1, 10)));
    assert!(!small.contains("OPENAI_API_KEY"), "nobody was asked: {small}");
}

#[test]
fn compact_command_prints_the_body_unchanged_if_nothing_is_gained() {
    let body = talk(1, 10);
    let output = run(&["--summary-model", "none"], &[], &body);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, body);
    assert!(said(&output).contains("nothing to gain"));
}

// ---- marks by model

#[tokio::test]
async fn per_model_marks_apply_to_matching_models_only() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("longhaul.toml");
    let text = "window = 1_000_000\n[summary]\nmodel = 'none'\n[[model]]\nmatch = 'M*'\n\
                hard = 20_000\n[[model]]\nmatch = '*'\nhard = '90%'\n";
    std::fs::write(&file, text).unwrap();
    let environment = [("LONGHAUL_CONFIG", file.to_str().unwrap())];
    let program = Program::start(&model.url(), &environment);
    let caller = Caller::of(program.address());
    assert_eq!(caller.ask(talk(20, 2_000)).await.action(), "digest");
    let other = String::from_utf8(talk(20, 2_000)).unwrap();
    // The conversation is unchanged: a record in use for one model is not in use for another.
    let other = other.replace(r#""model":"m""#, r#""model":"other""#);
    assert!(other.contains(r#""model":"other""#));
    assert_eq!(caller.ask(other).await.action(), "");
}

#[tokio::test]
async fn hard_threshold_in_tokens_applies_in_a_far_larger_window() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let environment = [
        ("LONGHAUL_WINDOW", "1000000"),
        ("LONGHAUL_SUMMARY_MODEL", "none"),
        ("LONGHAUL_COMPACT_HARD", "20000"),
        ("LONGHAUL_PROFILE", "standard"),
    ];
    let program = Program::start(&model.url(), &environment);
    let caller = Caller::of(program.address());
    assert_eq!(caller.ask(chat(8, 2_000)).await.action(), "");
    assert_eq!(caller.ask(chat(12, 2_000)).await.action(), "digest");
}
