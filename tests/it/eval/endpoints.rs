//! Endpoints of a run: one for summaries alone, one that is busy, and one that refuses under a success.

use longhaul_mock_model::{Model, ModelOptions, SeenRequest};

use super::harness::{Evaluation, FIXED, KEY, number, report, said};
use super::sessions::{Api, long_session, mark, session};
use crate::harness::{Upstream, Wire};

const SUMMARISED: [&str; 5] = ["--yes", "--json", "--window", "16k", "--samples"];

/// A run whose session needs a summary from `endpoint`.
async fn with_summaries_at(endpoint: &str) -> Evaluation {
    let mut evaluation = Evaluation::new(ModelOptions::with_window(200_000)).await;
    let long = long_session(Api::Chat, "Go on.", &mark("src/lost.rs"));
    evaluation.add("long.json", &long);
    let config = format!("[summary]\nupstream = \"{endpoint}\"\nmodel = \"writer\"\n");
    std::fs::write(evaluation.path("summaries.toml"), config).unwrap();
    evaluation.env.push(("DISABLE_PRUNE", "1"));
    evaluation.env.push(("LONGHAUL_CONFIG", "summaries.toml"));
    evaluation
}

#[tokio::test]
async fn an_endpoint_for_summaries_writes_them_all_and_receives_no_key() {
    let writer = Model::start(ModelOptions::with_window(200_000)).await.unwrap();
    let evaluation = with_summaries_at(&writer.url()).await;
    let output = evaluation.run(&[&SUMMARISED[..], &["2"]].concat()).await;
    report(&output);
    let written = writer.seen();
    assert!(!written.is_empty(), "{}", said(&output));
    let is_keyless = |request: &SeenRequest| {
        let head = format!("{:?}", request.headers);
        !head.contains(KEY)
    };
    assert!(written.iter().all(is_keyless));
    let is_step = |request: &SeenRequest| {
        let body = String::from_utf8_lossy(&request.body);
        body.contains(r#""model":"asked""#)
    };
    assert!(evaluation.seen().iter().all(is_step));
}

/// Reads a request with a body.
async fn read_request(wire: &mut Wire) {
    let head = wire.until("\r\n\r\n").await.to_lowercase();
    let length = head.split_once("content-length: ").unwrap().1;
    let length = length.split_once("\r\n").unwrap().0;
    wire.exactly(length.parse().unwrap()).await;
}

/// Answers every request with the replies in turn, and with the last one from then on.
fn answers(upstream: Upstream, replies: Vec<String>) {
    tokio::spawn(async move {
        let mut turn = 0;
        loop {
            let mut wire = upstream.accept().await;
            read_request(&mut wire).await;
            wire.send(&replies[turn.min(replies.len() - 1)]).await;
            turn += 1;
        }
    });
}

fn reply(status: &str, field: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{field}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn an_error_in_a_stream_of_success_is_no_summary_and_costs_nothing() {
    let upstream = Upstream::bind().await;
    let error = "event: error\ndata: {\"error\":{\"message\":\"overloaded\",\"code\":500}}\n\n";
    let base = upstream.base("/v1");
    answers(upstream, vec![reply("200 OK", "Content-Type: text/event-stream", error)]);
    let evaluation = with_summaries_at(&base).await;
    let output = evaluation.run(&[&SUMMARISED[..], &["2"]].concat()).await;
    let report = report(&output);
    assert!(number(&report["failed_summaries"]) > 0.0, "{report}");
    let entries = evaluation.read("longhaul-eval.jsonl");
    assert!(!entries.contains(r#""kind":"summary""#));
}

#[tokio::test]
async fn a_busy_upstream_is_asked_again_after_the_pause_that_it_names() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("/v1");
    let busy = reply("429 Too Many Requests", "Retry-After: 0", "{}");
    let answer = r#"{"choices":[{"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#;
    let answer = reply("200 OK", "Content-Type: application/json", answer);
    answers(upstream, vec![busy.clone(), busy, answer]);
    let mut evaluation = Evaluation::new(ModelOptions::with_window(200_000)).await;
    evaluation.add("lost.json", &session(Api::Chat, "Go on.", "nothing"));
    let arguments = ["--upstream", &base, "--samples", "1", "--concurrency", "1"];
    let report = evaluation.report(&[&arguments[..], &FIXED].concat()).await;
    assert_eq!(report["arms"][0]["failed"], 0, "{report}");
    assert_eq!(report["samples"][0]["original"]["outcome"], "step");
}
