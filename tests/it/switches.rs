//! Switches that turn features off, and the features that each leaves alone.

mod requests;

use std::process::Command;
use std::time::Duration;

use longhaul_mock_model::{
    Model, ModelOptions, ReplyCompletion, RequestKind, SeenRequest, Verdict,
};

use crate::caller::{Caller, chat, talk};
use crate::harness::{Upstream, Wire};
use crate::program::Program;
use crate::received_reply::ReceivedReply;
use crate::sessions::named;
use crate::time_limit::bounded;

const PLACEHOLDER: &str = "[Old tool result content cleared]";
const STANDS_FOR_HISTORY: &str = "[Earlier conversation, condensed by longhaul]";
/// Larger than anything here.
const HUGE: u64 = 10_000_000;
const SMALL: u64 = 32_768;

const PRUNE: (&str, &str) = ("DISABLE_PRUNE", "1");
const AUTO: (&str, &str) = ("DISABLE_AUTOCOMPACT", "true");
const OVERFLOW: (&str, &str) = ("DISABLE_COMPACT_ON_OVERFLOW", "YES");
const OFF: (&str, &str) = ("LONGHAUL_MODE", "off");
const SHADOW: (&str, &str) = ("LONGHAUL_MODE", "shadow");
const NO_MODEL: (&str, &str) = ("LONGHAUL_SUMMARY_MODEL", "none");
/// Window assumed by the proxy, independent of the model's actual window.
/// Clears by the fixed rule, whether or not that is likely to pay.
const BY_RULE: (&str, &str) = ("LONGHAUL_PROFILE", "standard");
const TAKEN_FOR_SMALL: (&str, &str) = ("LONGHAUL_WINDOW", "32768");

/// The program in front of a strict model.
struct Stage {
    model: Model,
    caller: Caller,
    program: Program,
}

/// The reply to a chat, and the requests that the model received meanwhile.
struct Sent {
    body: Vec<u8>,
    arrived: ReceivedReply,
    upstream: Vec<SeenRequest>,
}

impl Stage {
    async fn start(window: u64, environment: &[(&str, &str)]) -> Self {
        Self::with(ModelOptions::with_window(window), environment).await
    }

    async fn with(options: ModelOptions, environment: &[(&str, &str)]) -> Self {
        let model = Model::start(options).await.unwrap();
        let program = Program::told(&model.url(), environment);
        Self { caller: Caller::of(program.address()), model, program }
    }

    /// Waits until the log has the end of every summary job.
    async fn jobs_end(&self) {
        let is_idle = |said: &str| {
            let started = said.matches("summary job started").count();
            let ended = said.matches("summary job ended").count();
            started == ended && (started > 0 || self.summaries() == 0)
        };
        self.program.logs(is_idle).await;
    }

    async fn send(&self, body: Vec<u8>) -> Sent {
        self.send_with(&[], body).await
    }

    async fn send_with(&self, fields: &[(&str, &str)], body: Vec<u8>) -> Sent {
        let before = self.model.seen().len();
        let arrived = self.caller.ask_with(fields, body.clone()).await;
        Sent { body, arrived, upstream: self.model.seen().split_off(before) }
    }

    fn summaries(&self) -> usize {
        let seen = self.model.seen();
        seen.iter().filter(|seen| seen.kind == RequestKind::Summary).count()
    }
}

impl Sent {
    /// Returns the chats among the model's requests.
    fn chats(&self) -> Vec<&SeenRequest> {
        let chats = self.upstream.iter();
        chats.filter(|seen| seen.kind == RequestKind::Chat).collect()
    }

    fn last_chat(&self) -> &str {
        str::from_utf8(&self.chats().last().unwrap().body).unwrap()
    }

    #[track_caller]
    fn went_untouched(&self) {
        let chats = self.chats();
        assert_eq!(chats.len(), 1, "one send");
        assert!(chats[0].body == self.body, "the bytes have changed");
        assert_eq!(self.arrived.action(), "");
    }

    #[track_caller]
    fn was_answered(&self) {
        let said = String::from_utf8_lossy(&self.arrived.body);
        assert_eq!(self.arrived.status, 200, "{said}");
        assert_eq!(self.chats().last().unwrap().verdict, Verdict::Accepted);
    }
}

/// Builds a chat with old results beyond the rule's protection, in a window with room for
/// everything.
fn foldable() -> Vec<u8> {
    let replay = named("cli-0018").replay();
    replay.requests().next_back().unwrap().body()
}

/// Builds a chat that exceeds a small window by its results alone, none of them large.
fn full_of_results() -> Vec<u8> {
    chat(21, 1_900)
}

/// Builds a chat that exceeds a small window by its texts: there is nothing to clear.
fn full_of_words() -> Vec<u8> {
    talk(20, 2_000)
}

// ---- DISABLE_PRUNE, DISABLE_AUTOCOMPACT, DISABLE_COMPACT_ON_OVERFLOW: the fold

async fn check_fold(environment: &[(&str, &str)], folds: bool) {
    let environment = [&[BY_RULE], environment].concat();
    let stage = Stage::start(HUGE, &environment).await;
    let sent = stage.send(foldable()).await;
    sent.was_answered();
    if folds {
        assert_eq!(sent.arrived.action(), "prune");
        assert!(sent.last_chat().contains(PLACEHOLDER));
    } else {
        sent.went_untouched();
    }
}

#[tokio::test]
async fn clears_old_results_if_nothing_is_switched_off() {
    check_fold(&[], true).await;
}

#[tokio::test]
async fn without_prune_no_result_is_cleared() {
    check_fold(&[PRUNE], false).await;
}

#[tokio::test]
async fn without_autocompact_old_results_are_cleared() {
    check_fold(&[AUTO], true).await;
}

#[tokio::test]
async fn without_compact_on_overflow_old_results_are_cleared() {
    check_fold(&[OVERFLOW], true).await;
}

#[tokio::test]
async fn small_window_clears_results_at_its_mark_with_a_digest_if_needed() {
    for (environment, action) in [
        (&[TAKEN_FOR_SMALL, NO_MODEL][..], "prune"),
        (&[TAKEN_FOR_SMALL], "prune"),
        (&[TAKEN_FOR_SMALL, AUTO], "prune"),
    ] {
        let stage = Stage::start(HUGE, environment).await;
        let sent = stage.send(full_of_results()).await;
        assert!(sent.last_chat().contains(PLACEHOLDER), "{environment:?}");
        assert_eq!(sent.arrived.action(), action, "{environment:?}");
    }
}

// ---- the proactive summary

/// Plays a growing conversation to an unlimited model, until a summary is used or the conversation ends.
/// Returns the reported actions.
async fn actions_until_a_summary(environment: &[(&str, &str)]) -> (Stage, Vec<String>) {
    let mut all = vec![TAKEN_FOR_SMALL, ("LONGHAUL_LOG_LEVEL", "debug")];
    all.extend(environment);
    let stage = Stage::start(HUGE, &all).await;
    let whole: serde_json::Value = serde_json::from_slice(&full_of_words()).unwrap();
    let messages = whole["messages"].as_array().unwrap().len();
    let mut actions = Vec::new();
    for upto in (2..=messages).step_by(2) {
        let mut body = whole.clone();
        body["messages"].as_array_mut().unwrap().truncate(upto);
        let sent = stage.send(body.to_string().into()).await;
        sent.was_answered();
        assert_eq!(sent.chats().len(), 1);
        let action = sent.arrived.action();
        let is_condensed = action.contains("summary") || action.contains("digest");
        assert_eq!(sent.last_chat().contains(STANDS_FOR_HISTORY), is_condensed);
        actions.push(action.to_owned());
        if action.contains("summary") {
            break;
        }
        let ended =
            |seen: &[SeenRequest]| seen.iter().all(|seen| seen.ended != ReplyCompletion::Pending);
        bounded(stage.model.wait_for(ended)).await;
        // The record is stored after the model's reply.
        stage.jobs_end().await;
    }
    (stage, actions)
}

#[tokio::test]
async fn a_summary_is_made_before_an_overflow_whatever_else_is_switched_off() {
    for environment in [&[][..], &[PRUNE], &[OVERFLOW]] {
        let (stage, actions) = actions_until_a_summary(environment).await;
        let last = actions.last().unwrap();
        assert!(last.contains("summary"), "{environment:?}: {last}");
        assert!(stage.summaries() > 0, "{environment:?}");
    }
}

#[tokio::test]
async fn without_autocompact_no_summary_is_made_or_used_before_an_overflow() {
    let (stage, actions) = actions_until_a_summary(&[AUTO]).await;
    let condenses = |action: &String| action.contains("summary") || action.contains("digest");
    assert!(!actions.iter().any(condenses), "{actions:?}");
    assert_eq!(stage.summaries(), 0);
}

// ---- overflow: clear

#[tokio::test]
async fn retry_after_an_overflow_only_clears_if_that_is_enough() {
    for environment in [&[][..], &[AUTO]] {
        let stage = Stage::start(SMALL, environment).await;
        let sent = stage.send(full_of_results()).await;
        sent.was_answered();
        assert_eq!(sent.chats().len(), 2);
        assert_eq!(stage.summaries(), 0, "no model was needed");
        assert!(sent.last_chat().contains(PLACEHOLDER));
        assert_eq!(sent.arrived.action(), "retry, prune");
    }
}

#[tokio::test]
async fn without_prune_an_overflow_clears_nothing() {
    let stage = Stage::start(SMALL, &[PRUNE]).await;
    let sent = stage.send(full_of_results()).await;
    sent.was_answered();
    assert!(!sent.last_chat().contains(PLACEHOLDER));
    assert!(sent.last_chat().contains(STANDS_FOR_HISTORY));
    assert_eq!(sent.arrived.action(), "retry, summary");
}

#[tokio::test]
async fn without_compact_on_overflow_the_refusal_is_relayed() {
    for body in [full_of_results(), full_of_words()] {
        let stage = Stage::start(SMALL, &[OVERFLOW]).await;
        let sent = stage.send(body).await;
        sent.went_untouched();
        assert_eq!(sent.arrived.status, 400);
        assert!(str::from_utf8(&sent.arrived.body).unwrap().contains("context_length_exceeded"));
        assert_eq!(stage.summaries(), 0);
    }
}

// ---- overflow: summary, digest, clip, retry

#[tokio::test]
async fn an_overflow_is_summarised_without_prune_and_without_autocompact() {
    for environment in [&[][..], &[PRUNE], &[AUTO], &[PRUNE, AUTO]] {
        let stage = Stage::start(SMALL, environment).await;
        let sent = stage.send(full_of_words()).await;
        sent.was_answered();
        assert_eq!(sent.arrived.action(), "retry, summary", "{environment:?}");
        assert_eq!(stage.summaries(), 1);
    }
}

#[tokio::test]
async fn an_overflow_is_digested_without_prune_and_without_autocompact() {
    for environment in [&[NO_MODEL][..], &[NO_MODEL, PRUNE], &[NO_MODEL, AUTO]] {
        let stage = Stage::start(SMALL, environment).await;
        let sent = stage.send(full_of_words()).await;
        sent.was_answered();
        assert_eq!(sent.arrived.action(), "retry, digest", "{environment:?}");
        assert_eq!(stage.summaries(), 0);
    }
}

#[tokio::test]
async fn an_overflow_is_clipped_without_prune_and_without_autocompact() {
    for environment in [&[NO_MODEL][..], &[NO_MODEL, PRUNE], &[NO_MODEL, AUTO]] {
        let stage = Stage::start(SMALL, environment).await;
        // A single result that exceeds the window and is also the newest: only clipping can help.
        let mut body: serde_json::Value = serde_json::from_slice(&chat(1, 40_000)).unwrap();
        let messages = body["messages"].as_array_mut().unwrap();
        messages.truncate(messages.len() - 2);
        let sent = stage.send(body.to_string().into()).await;
        sent.was_answered();
        assert_eq!(sent.arrived.action(), "retry, clip", "{environment:?}");
    }
}

#[tokio::test]
async fn without_autocompact_the_summary_of_an_overflow_stays_in_use() {
    let stage = Stage::start(SMALL, &[AUTO]).await;
    let first = stage.send(full_of_words()).await;
    assert_eq!(first.chats().len(), 2);
    let mut body: serde_json::Value = serde_json::from_slice(&full_of_words()).unwrap();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(serde_json::json!({"role": "assistant", "content": "Nothing more."}));
    messages.push(serde_json::json!({"role": "user", "content": "Sure?"}));
    let second = stage.send(body.to_string().into()).await;
    second.was_answered();
    assert_eq!(second.chats().len(), 1, "no second overflow");
    assert_eq!(second.arrived.action(), "summary");
    assert!(second.chats()[0].keeps_prefix(), "the cached prefix is kept");
    assert_eq!(stage.summaries(), 1);
}

/// Far less than the maximum hold of a reply.
const HELD: Duration = Duration::from_secs(5);

#[tokio::test]
async fn without_compact_on_overflow_no_reply_is_held() {
    let upstream = Upstream::bind().await;
    let program = Program::start(&upstream.base("/v1"), &[OVERFLOW]);
    let mut client = Wire::to(program.address()).await;
    client.send(&post("", r#"{"stream":true,"messages":[{"role":"user","content":"x"}]}"#)).await;
    let mut server = upstream.accept().await;
    server.until("]}").await;
    server.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: wait\n\n").await;
    tokio::time::timeout(HELD, client.until(": wait\n\n")).await.expect("the comment is held");
}

// ---- a plain wire

fn post(fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Checks that the first half of a chat reaches the upstream before the second is sent.
async fn check_wire(environment: &[(&str, &str)], fields: &str) {
    let upstream = Upstream::bind().await;
    let program = Program::start(&upstream.base("/v1"), environment);
    let mut client = Wire::to(program.address()).await;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{fields}Transfer-Encoding: chunked\r\n\r\n"
    );
    client.send(&format!("{head}c\r\n{{\"messages\":\r\n")).await;
    let mut server = upstream.accept().await;
    let got = server.until("{\"messages\":\r\n").await;
    assert!(!got.to_lowercase().contains("x-longhaul"), "{got}");
    client.send("3\r\n[]}\r\n0\r\n\r\n").await;
    server.until("0\r\n\r\n").await;
}

#[tokio::test]
async fn mode_off_and_all_three_switches_stream_chats_unbuffered() {
    check_wire(&[OFF], "").await;
    check_wire(&[PRUNE, AUTO, OVERFLOW], "").await;
    check_wire(&[], "X-Longhaul-Mode: off\r\n").await;
}

#[tokio::test]
async fn mode_off_relays_even_an_overflow_to_the_client() {
    for (environment, fields) in [
        (&[OFF][..], &[][..]),
        (&[PRUNE, AUTO, OVERFLOW], &[]),
        (&[], &[("x-longhaul-mode", "off")]),
        (&[OFF], &[("x-longhaul-compact", "now")]),
    ] {
        let stage = Stage::start(SMALL, environment).await;
        let sent = stage.send_with(fields, full_of_results()).await;
        sent.went_untouched();
        assert_eq!(sent.arrived.status, 400);
    }
}

// ---- the words of switches

fn check_said(name: &str, value: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .arg("check")
        .env_clear()
        .env(name, value)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn switches_accept_eight_boolean_words_and_the_empty_value() {
    let page = include_str!("../../docs/reference/settings.md");
    // - **`key`** = `false` (`DISABLE_…`, `LONGHAUL_…`)
    let switches: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|row| {
            let words: Vec<&str> = row.split('`').collect();
            let name = words.get(5).filter(|name| name.starts_with("DISABLE_"))?;
            Some((*name, words[1]))
        })
        .collect();
    assert!(switches.contains(&(PRUNE.0, "prune.disabled")), "{switches:?}");
    for (name, key) in switches {
        let of = |value: &str| {
            let (code, said) = check_said(name, value);
            let line = said.lines().find(|line| line.starts_with(key));
            let line = line.unwrap_or_else(|| panic!("{name}={value}: {code:?}, {said}"));
            line.split_whitespace().nth(2).unwrap().to_owned()
        };
        for word in ["1", "true", "YES", "On"] {
            assert_eq!(of(word), "true", "{name}={word}");
        }
        for word in ["0", "FALSE", "no", "off", ""] {
            assert_eq!(of(word), "false", "{name}={word}");
        }
        let (code, said) = check_said(name, "maybe");
        assert_eq!(code, Some(64), "{said}");
        for words in [name, "`maybe`", "0, false, no or off"] {
            assert!(said.contains(words), "{said}");
        }
    }
}
