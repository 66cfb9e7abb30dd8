//! `--likelihood` against a server that scores prompts as vLLM does: a token that the prompt shows before is
//! likelier than one that it does not show, so that the loss of every history is known beforehand.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use longhaul_mock_model::{ChatBehaviour, ModelOptions, RefusalReply, serve_connections};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::harness::{Evaluation, FIXED, UNPAID, number, report, said};
use super::sessions::{Api, mark, session};

/// Log-probabilities of a token that the prompt shows before, of another one, of one that ends a message, and of
/// one that begins a message, which no step has.
const SHOWN: f64 = -0.25;
const NEW: f64 = -2.0;
const END: f64 = -0.5;
const HEADER: f64 = -50.0;

/// A server that scores prompts, and the bodies that it has read.
struct ScoringServer {
    base: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl ScoringServer {
    async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let serve = move |request: Request<Incoming>| {
            let log = Arc::clone(&log);
            async move {
                let body = request.into_body().collect().await.map_err(io::Error::other)?;
                let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
                let reply = scored(&body);
                log.lock().unwrap().push(body);
                Ok(Response::new(Full::new(Bytes::from(reply.to_string()))))
            }
        };
        tokio::spawn(serve_connections(listener, serve));
        Self { base, seen }
    }

    fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }
}

/// The tokens of a message: its header, its words and its end.
fn tokens(message: &Value) -> Vec<String> {
    let mut text = message["content"].as_str().unwrap_or_default().to_owned();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let [name, arguments] = ["name", "arguments"].map(|key| call["function"][key].as_str());
        text = format!("{text} {} {}", name.unwrap(), arguments.unwrap());
    }
    let header = format!("<{}>", message["role"].as_str().unwrap());
    let words = text.split_whitespace().map(str::to_owned);
    std::iter::once(header).chain(words).chain(["<end>".to_owned()]).collect()
}

/// The reply to a request, which must ask for scores and for one token alone.
fn scored(body: &Value) -> Value {
    let (messages, none) = (body["messages"].as_array().unwrap(), Value::from("none"));
    let ends_in_step = messages.last().unwrap()["role"] == "assistant";
    assert_eq!(body["model"], "asked");
    assert_eq!(body["prompt_logprobs"], 0);
    assert_eq!(body["max_tokens"], 1);
    let has_tools = body.get("tools").is_some();
    assert_eq!(body.get("tool_choice"), has_tools.then_some(&none), "a choice needs tools");
    assert_eq!(body["add_generation_prompt"], !ends_in_step);
    assert!(body.get("stream").is_none());
    let mut prompt: Vec<String> = messages.iter().flat_map(tokens).collect();
    if !ends_in_step {
        prompt.push("<assistant>".to_owned());
    }
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let mut scores = vec![Value::Null];
    for (at, token) in prompt.iter().enumerate() {
        let is_shown = ids.insert(token.clone(), id(token)).is_some();
        let logprob = match token.as_str() {
            "<end>" => END,
            header if header.starts_with('<') => HEADER,
            _ if is_shown => SHOWN,
            _ => NEW,
        };
        if at > 0 {
            let score = json!({"logprob": logprob, "rank": 1, "decoded_token": token});
            scores.push(json!({ id(token).to_string(): score }));
        }
    }
    json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": prompt.len(), "completion_tokens": 1},
        "prompt_logprobs": scores,
    })
}

fn id(token: &str) -> usize {
    token.bytes().fold(7, |id, byte| (id * 31 + usize::from(byte)) % 1_000_003)
}

/// Steps between a result and the step that names its code.
const DISTANCE: usize = 6;

/// A session whose results hold codes that a step long after names for the first time.
fn coded(letter: char) -> Value {
    let mut body = session(Api::Chat, "Go on.", "nothing");
    for (at, message) in body["messages"].as_array_mut().unwrap().iter_mut().enumerate() {
        let step = at.saturating_sub(1) / 2;
        if message["role"] == "tool" {
            let text = message["content"].as_str().unwrap();
            message["content"] = format!("{letter}-code-{step} {text}").into();
        } else if message["role"] == "assistant" && step >= DISTANCE {
            message["content"] = format!("again {letter}-code-{}", step - DISTANCE).into();
        }
        if message["role"] == "assistant" {
            let arguments = json!({ "path": format!("{letter}-{step}.txt") }).to_string();
            message["tool_calls"][0]["function"]["arguments"] = arguments.into();
        }
    }
    body
}

async fn evaluation() -> (Evaluation, ScoringServer) {
    let mut evaluation = Evaluation::new(ModelOptions::with_window(200_000)).await;
    evaluation.add("a.json", &coded('a'));
    evaluation.add("b.json", &coded('b'));
    (evaluation, ScoringServer::start().await)
}

#[tokio::test]
async fn the_loss_is_that_of_the_tokens_that_a_history_no_longer_shows() {
    let (evaluation, server) = evaluation().await;
    let upstream = ["--likelihood", "--upstream", &server.base, "--samples", "1000"];
    let output = evaluation.run(&[&UNPAID[..], &upstream, &FIXED].concat()).await;
    let report = report(&output);
    let stated = said(&output);
    let stated = stated.split_once("to ask: ").unwrap().1.split_once(" steps").unwrap().0;
    // Each session states the shortest prompt, which is scored once.
    assert_eq!(stated.parse::<usize>().unwrap(), server.seen().len() + 1);

    let samples = report["samples"].as_array().unwrap();
    let (mut lost, mut kept, mut count) = (0, 0, 0);
    for sample in samples {
        let step = usize::try_from(sample["request"].as_u64().unwrap()).unwrap() - 1;
        let letter = &sample["session"].as_str().unwrap()[..1];
        let code = id(&format!("{letter}-code-{}", step.wrapping_sub(DISTANCE))).to_string();
        let of = |history: &Value| -> f64 {
            assert_eq!(history["outcome"], "scored", "{sample}");
            let tokens = history["tokens"].as_array().unwrap();
            let expected = if step < DISTANCE { 3 } else { 5 };
            assert_eq!(tokens.len(), expected, "{sample}");
            let place = tokens.iter().find(|token| token[0] == *code);
            place.map_or(0.0, |token| number(&token[1]))
        };
        let [whole, forwarded] = [&sample["original"], &sample["arms"][0]["step"]].map(of);
        count += if step < DISTANCE { 3 } else { 5 };
        if step < DISTANCE {
            continue;
        }
        assert!((whole - SHOWN).abs() < 1e-9, "{sample}");
        let is_lost = (forwarded - NEW).abs() < 1e-9;
        assert!(is_lost || (forwarded - SHOWN).abs() < 1e-9, "{sample}");
        lost += i32::from(is_lost);
        kept += i32::from(!is_lost);
    }
    assert!(lost > 1, "{lost} {kept}");
    let figures = &report["arms"][0]["likelihood"];
    assert_eq!(figures["steps"], samples.len());
    let expected = f64::from(lost) * (SHOWN - NEW) / f64::from(count);
    assert!((number(&figures["loss"]) - expected).abs() < 1e-9, "{figures}");
    // Both sessions are alike.
    for end in figures["interval"].as_array().unwrap() {
        assert!((number(end) - expected).abs() < 1e-9, "{figures}");
    }
    assert!(number(&figures["tokens"]) < number(&figures["whole_tokens"]));
    let newest = &report["arms"][1];
    assert_eq!(newest["name"], "newest messages (size: placeholder fixed)");
    assert_eq!(newest["likelihood"]["steps"], samples.len());
    assert!(number(&newest["likelihood"]["tokens"]) < number(&figures["whole_tokens"]));
    assert!(number(&newest["likelihood"]["loss"]) >= expected, "{newest}");

    let asked = server.seen().len();
    let again = evaluation.run(&[&UNPAID[1..], &upstream, &FIXED].concat()).await;
    assert_eq!(super::harness::report(&again)["arms"], report["arms"]);
    assert_eq!(server.seen().len(), asked, "each prompt is scored once");
}

#[tokio::test]
async fn an_upstream_without_scores_ends_the_run_at_its_first_reply() {
    let (evaluation, _server) = evaluation().await;
    let arguments = ["--likelihood", "--concurrency", "1"];
    let output = evaluation.run(&[&UNPAID[..], &arguments, &FIXED].concat()).await;
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    let reason = "the upstream returns no log-probabilities of the prompt";
    assert!(said(&output).contains(reason), "{}", said(&output));
    assert_eq!(evaluation.seen().len(), 1);

    let words = "Unrecognized request argument supplied: prompt_logprobs";
    let error = json!({"error": {"message": words}}).to_string();
    let refusal = RefusalReply::new(400, "application/json", error);
    evaluation.model.change(|options| options.chat = ChatBehaviour::Replies(refusal));
    let output = evaluation.run(&[&UNPAID[..], &arguments, &FIXED].concat()).await;
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    assert!(said(&output).contains(words), "{}", said(&output));
    assert_eq!(evaluation.seen().len(), 2);
}

#[tokio::test]
async fn scores_cost_no_more_than_the_limit() {
    let (evaluation, server) = evaluation().await;
    let prices = super::write_prices(&evaluation);
    let arguments = ["--likelihood", "--upstream", &server.base, "--config", &prices];
    let limit = ["--concurrency", "1", "--max-cost", "5"];
    let report = evaluation.report(&[&arguments[..], &limit, &FIXED].concat()).await;
    assert_eq!(report["is_stopped_by_cost"], true);
    assert!(number(&report["spent"]) <= 5e9, "{report}");
    assert!(!server.seen().is_empty());
    assert!(number(&report["arms"][0]["not_made"]) > 0.0, "{report}");
}

#[tokio::test]
async fn sessions_of_other_apis_are_refused_before_anything_is_scored() {
    let (mut evaluation, server) = evaluation().await;
    evaluation.add("other.json", &session(Api::Messages, "Go on.", &mark("src/lost.rs")));
    let arguments = ["--likelihood", "--upstream", &server.base];
    let output = evaluation.run(&[&UNPAID[..], &arguments].concat()).await;
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(said(&output).contains("other.json: --likelihood takes chat completions"));
    assert!(server.seen().is_empty());
}
