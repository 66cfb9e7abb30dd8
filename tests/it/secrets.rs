//! A caller's text stays between the caller and the upstream: it appears neither in a log nor in
//! another caller's prompt.

use longhaul_mock_model::{Model, ModelOptions, RequestKind, SeenRequest, SummaryBehaviour};

use crate::caller::{Caller, talk};
use crate::program::Program;

const SMALL: u64 = 32_768;
/// Part of every message, field, name and query below.
const SECRET: &str = "hunter2";

/// Builds a conversation past a small window with the secret in every text.
fn telling() -> String {
    let body = String::from_utf8(talk(20, 2_000)).unwrap();
    let body = body.replace("said", SECRET).replace("Task", SECRET);
    body.replacen('{', &format!(r#"{{"user":"{SECRET}","#), 1)
}

#[tokio::test]
async fn logs_contain_no_conversation_text_or_key_at_any_level() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let trace = [("LONGHAUL_LOG_LEVEL", "trace"), ("LONGHAUL_LOG_FORMAT", "json")];
    let program = Program::told(&model.url(), &trace);
    let caller = Caller::of(program.address());
    let key = format!("Bearer {SECRET}");
    let with = |extra: &'static [(&'static str, &'static str)]| {
        [&[("authorization", key.as_str()), ("x-own", SECRET), ("cookie", SECRET)], extra].concat()
    };
    // Requests recovered with a summary, compacted at once, in shadow mode, and refused.
    let recovered = caller.ask_with(&with(&[]), telling()).await;
    assert_eq!(recovered.action(), "retry, summary");
    let other = telling().replace("And now?", SECRET).replacen("000", "abc", 1);
    model.change(|options| options.window = 10_000_000);
    let now = caller.ask_with(&with(&[("x-longhaul-compact", "now")]), other).await;
    assert_eq!(now.action(), "summary");
    caller.ask_with(&with(&[("x-longhaul-mode", "shadow")]), telling()).await;
    caller.ask_with(&with(&[]), format!("{{\"{SECRET}\":")).await;
    // Failing summaries, and an overflow that cannot be recovered.
    model.change(|options| {
        options.window = SMALL;
        options.summary = SummaryBehaviour::Fails;
    });
    // Another model, whose window is still unknown.
    let third = telling().replacen("000", "def", 1).replace("\"m\"", "\"n\"");
    let digested = caller.ask_with(&with(&[]), third).await;
    assert_eq!(digested.action(), "retry, digest");
    // The log names models, so the model has a name of its own.
    let hopeless = format!(
        r#"{{"model":"hopeless","messages":[{{"role":"user","content":"{}"}}]}}"#,
        SECRET.repeat(30_000)
    );
    assert_eq!(caller.ask_with(&with(&[]), hopeless).await.action(), "gave-up");

    let said = program.ended();
    for line in ["compacting", "summary made", "no summary", "Compaction failed", "\"request\""] {
        assert!(said.contains(line), "{line:?} was never said:\n{said}");
    }
    let told = said.lines().find(|line| line.contains(SECRET));
    assert_eq!(told, None);
}

#[tokio::test]
async fn callers_with_different_keys_share_neither_record_nor_summary() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    // Without this switch, a digest would serve every request after the window is learned.
    let program = Program::start(&model.url(), &[("DISABLE_AUTOCOMPACT", "1")]);
    let caller = Caller::of(program.address());
    let summaries = || {
        let seen = model.seen();
        let of = |seen: &&SeenRequest| seen.kind == RequestKind::Summary;
        seen.iter().filter(of).count()
    };
    let body = talk(20, 2_000);
    let mut expect = 0;
    for fields in [
        &[("authorization", "Bearer one")][..],
        &[("authorization", "Bearer two")],
        &[("api-key", "one")],
        &[("authorization", "Bearer one"), ("openai-project", "other")],
        &[],
    ] {
        expect += 1;
        let first = caller.ask_with(fields, body.clone()).await;
        assert_eq!(first.action(), "retry, summary", "{fields:?}");
        assert_eq!(summaries(), expect, "{fields:?}");
        // The summary call used the caller's own key.
        let seen = model.seen();
        let asked = seen.iter().rfind(|seen| seen.kind == RequestKind::Summary).unwrap();
        for (name, value) in fields {
            assert_eq!(asked.headers[*name], *value);
        }
        assert_eq!(
            asked.headers.contains_key("authorization"),
            fields.iter().any(|(name, _)| *name == "authorization")
        );
        // The caller's next request uses the record again.
        let again = caller.ask_with(fields, body.clone()).await;
        assert_eq!(again.action(), "summary", "{fields:?}");
        assert_eq!(summaries(), expect, "{fields:?}");
        let sent = model.seen();
        assert_eq!(sent[sent.len() - 1].body, sent[sent.len() - 2].body);
    }
}

/// The environment holds keys; a process that is not dumpable belongs to root in `/proc`.
#[cfg(target_os = "linux")]
#[test]
fn other_processes_of_the_user_cannot_read_the_environment() {
    use std::os::unix::fs::MetadataExt as _;

    let program = Program::without_privileges("http://127.0.0.1:9/v1", &[]);
    let environment = format!("/proc/{}/environ", program.process());
    assert_eq!(std::fs::metadata(environment).unwrap().uid(), 0);
}
