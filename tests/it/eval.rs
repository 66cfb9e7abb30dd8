//! `longhaul eval` against a model whose next step follows from what it sees.
//!
//! The model reads the file after the last mark that a request shows, and asks back if it sees none. So
//! the step of every history is known beforehand, and with it the agreement.

mod endpoints;
mod harness;
mod likelihood;
mod sessions;
#[cfg(target_os = "linux")]
mod terminal;

use std::path::Path;

use longhaul_mock_model::{ChatBehaviour, ModelOptions, RefusalReply, SeenRequest};
use serde_json::Value;

use harness::{Evaluation, FIXED, KEY, UNPAID, number, report, said, step};
use sessions::{Api, long_session, mark, session};

/// Three sessions of one API: the mark is in a result that is cleared; the mark is in a user message; a
/// user message has another mark than a later result.
async fn three_sessions(api: Api) -> Evaluation {
    let mut evaluation = Evaluation::new(ModelOptions::with_window(200_000)).await;
    evaluation.add("lost.json", &session(api, "Go on.", &mark("src/lost.rs")));
    evaluation
        .add("kept.json", &session(api, &format!("Go on. {}", mark("src/kept.rs")), "nothing"));
    evaluation.add(
        "other.json",
        &session(api, &format!("Go on. {}", mark("src/old.rs")), &mark("src/new.rs")),
    );
    evaluation
}

/// Checks every step and every figure of the three sessions.
async fn check_agreement(api: Api) {
    let evaluation = three_sessions(api).await;
    let report = evaluation.report(&[&FIXED[..], &["--samples", "1000"]].concat()).await;
    let samples = report["samples"].as_array().unwrap();
    let (mut lost, mut kept, mut other) = (0, 0, 0);
    for sample in samples {
        let (original, forwarded) = match sample["session"].as_str().unwrap() {
            "lost.json" => {
                lost += 1;
                ("src/lost.rs", "question")
            }
            "kept.json" => {
                kept += 1;
                ("src/kept.rs", "src/kept.rs")
            }
            "other.json" => {
                other += 1;
                ("src/new.rs", "src/old.rs")
            }
            name => panic!("{name}"),
        };
        assert_eq!(step(&sample["original"]), original, "{sample}");
        assert_eq!(step(&sample["control"]), original, "{sample}");
        assert_eq!(step(&sample["arms"][0]["step"]), forwarded, "{sample}");
        assert!(number(&sample["arms"][0]["changes"]) > 0.0, "{sample}");
    }
    // The sessions differ in their marks alone, so equally many requests of each are changed.
    assert!(lost > 3 && lost == kept && lost == other, "{lost} {kept} {other}");
    let arm = &report["arms"][0];
    let all = f64::from(lost + kept + other);
    let share = |figure: &str, history: &str| number(&arm[figure][history]["share"]);
    assert!((number(&arm["same_step"]["pairs"]) - all).abs() < 1e-9);
    for (figure, expect) in [
        ("same_step", f64::from(kept) / all),
        ("same_tools", f64::from(kept + other) / all),
        ("same_files", f64::from(kept) / all),
    ] {
        assert!((share(figure, "treatment") - expect).abs() < 1e-9, "{figure}: {arm}");
        assert!((share(figure, "control") - 1.0).abs() < 1e-9, "{figure}: {arm}");
    }
    assert_eq!(arm["questions"]["forwarded"], lost);
    assert_eq!(arm["questions"]["control"], 0);
    let expect = "the forwarded history changes the next step more often than asking twice does";
    assert!(arm["conclusion"].as_str().unwrap().starts_with(expect), "{arm}");
    check_requests(&evaluation, api);
}

/// Checks that each request was whole, short, for the named model, and carried the key, which no file does.
fn check_requests(evaluation: &Evaluation, api: Api) {
    let seen = evaluation.seen();
    assert!(!seen.is_empty());
    for request in &seen {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["model"], "asked");
        assert!(body.get("stream").is_none());
        assert_eq!(request.max_output, Some(1_024));
        let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap());
        match api {
            Api::Messages => {
                assert_eq!(header("x-api-key"), Some(KEY));
                assert_eq!(header("anthropic-version"), Some("2023-06-01"));
                assert_eq!(header("authorization"), None);
            }
            Api::Chat | Api::Responses => {
                assert_eq!(header("authorization"), Some("Bearer sk-hunter2"));
            }
        }
    }
    for name in ["longhaul-eval.jsonl", "longhaul-eval.html"] {
        assert!(!evaluation.read(name).contains("hunter2"), "{name}");
    }
}

#[tokio::test]
async fn agreement_is_what_the_visible_marks_imply_in_chat_completions() {
    check_agreement(Api::Chat).await;
}

#[tokio::test]
async fn agreement_is_what_the_visible_marks_imply_in_messages() {
    check_agreement(Api::Messages).await;
}

#[tokio::test]
async fn agreement_is_what_the_visible_marks_imply_in_responses() {
    check_agreement(Api::Responses).await;
}

#[tokio::test]
async fn a_second_run_asks_only_for_what_changed() {
    let mut evaluation = three_sessions(Api::Chat).await;
    let first = evaluation.report(&FIXED).await;
    let asked = evaluation.seen().len();
    // Nothing is left to pay for, so that nobody has to agree.
    let again = evaluation.run(&[&UNPAID[1..], &FIXED].concat()).await;
    assert_eq!(report(&again)["arms"], first["arms"]);
    assert_eq!(evaluation.seen().len(), asked);

    let changed = session(Api::Chat, "Go on.", &mark("src/changed.rs"));
    evaluation.add("lost.json", &changed);
    evaluation.report(&FIXED).await;
    let seen = evaluation.seen();
    let new = seen.get(asked..).unwrap();
    assert!(!new.is_empty() && new.len() < asked);
    for request in new {
        let body = String::from_utf8_lossy(&request.body);
        assert!(!body.contains("src/kept.rs") && !body.contains("src/old.rs"), "{body}");
    }
    let asked = seen.len();
    // Another placeholder changes only what longhaul forwards.
    evaluation.report(&["--placeholder", "described"]).await;
    let seen = evaluation.seen();
    let new = seen.get(asked..).unwrap();
    let is_cleared =
        |request: &SeenRequest| String::from_utf8_lossy(&request.body).contains("[Old tool result");
    assert!(!new.is_empty() && new.iter().all(is_cleared));
}

#[tokio::test]
async fn nothing_is_spent_without_consent() {
    let evaluation = three_sessions(Api::Chat).await;
    let output = evaluation.run(&["--summary-model", "none"]).await;
    let said = said(&output);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("to ask:") && said.contains("tokens of input"), "{said}");
    assert!(said.contains("nothing was spent: pass --yes"), "{said}");
    assert!(evaluation.seen().is_empty());
}

/// Writes prices for every model: a dollar per thousand tokens of input, and nothing for output.
fn write_prices(evaluation: &Evaluation) -> String {
    let path = evaluation.path("prices.toml");
    std::fs::write(&path, "[[price]]\nmatch = \"*\"\ninput = 1000\noutput = 0\n").unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_run_stops_before_its_limit_and_a_higher_limit_goes_on() {
    let evaluation = three_sessions(Api::Chat).await;
    let prices = write_prices(&evaluation);
    let with = |limit: &'static str| {
        let one_by_one = ["--concurrency", "1", "--max-cost", limit];
        [&["--config", &prices][..], &one_by_one].concat()
    };
    let stopped = evaluation.report(&with("20")).await;
    let asked = evaluation.seen().len();
    assert_eq!(stopped["is_stopped_by_cost"], true);
    let spent = number(&stopped["spent"]) / 1e9;
    // A request has some 2,000 tokens, so that the run stops within two of them of its limit.
    assert!(spent <= 20.0 && spent > 14.0, "{spent}");
    assert!(number(&stopped["arms"][0]["not_made"]) > 0.0, "{stopped}");
    // The same limit allows nothing more.
    evaluation.report(&with("20")).await;
    assert_eq!(evaluation.seen().len(), asked);

    let whole = evaluation.report(&with("100000")).await;
    assert_eq!(whole["is_stopped_by_cost"], false);
    assert_eq!(whole["arms"][0]["not_made"], 0);
    let samples = whole["samples"].as_array().unwrap().len();
    assert_eq!(evaluation.seen().len(), 3 * samples, "each call is made once");
}

#[tokio::test]
async fn the_stated_cost_covers_what_is_spent() {
    let evaluation = three_sessions(Api::Chat).await;
    let prices = write_prices(&evaluation);
    let arguments = ["--yes", "--json", "--summary-model", "none", "--config", &prices];
    let output = evaluation.run(&arguments).await;
    let said = said(&output);
    let stated = said.split_once("about $").unwrap().1;
    let stated: f64 = stated.split(' ').next().unwrap().parse().unwrap();
    let spent = number(&report(&output)["spent"]) / 1e9;
    assert!(spent > 0.0 && (spent / stated - 1.0).abs() < 0.3, "{spent} {said}");
}

#[tokio::test]
async fn a_limit_of_cost_without_a_price_is_refused() {
    let evaluation = three_sessions(Api::Chat).await;
    let output = evaluation.run(&["--yes", "--max-cost", "1", "--summary-model", "none"]).await;
    assert_eq!(output.status.code(), Some(64));
    assert!(said(&output).contains("--max-cost needs prices"), "{}", said(&output));
    assert!(evaluation.seen().is_empty());
}

#[tokio::test]
async fn hostile_text_of_a_session_stays_text_on_the_page() {
    let mut evaluation = Evaluation::new(ModelOptions::with_window(200_000)).await;
    let hostile = "</pre></section><script>alert(1)</script><img src=x onerror=alert(1)>";
    let mut body = session(Api::Chat, hostile, &mark("src/lost.rs"));
    let messages = body["messages"].as_array_mut().unwrap();
    messages.last_mut().unwrap()["content"] = hostile.into();
    evaluation.add("<b>hostile.json", &body);
    evaluation.report(&FIXED).await;
    let page = evaluation.read("longhaul-eval.html");
    assert!(page.contains("default-src 'none'; style-src 'sha256-"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    for markup in ["<script", "<img", "<b>hostile", "onerror=alert(1)>"] {
        assert!(!page.contains(markup), "{markup}");
    }
    assert!(page.contains("messages that longhaul had changed"));
    assert!(page.contains("another kind of step"));
}

#[tokio::test]
async fn few_requests_say_nothing_and_the_table_says_so() {
    let evaluation = three_sessions(Api::Chat).await;
    let arguments = ["--yes", "--samples", "3", "--summary-model", "none"];
    let output = evaluation.run(&arguments).await;
    let page = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(page.contains("too few requests to say anything: 3 pairs"), "{page}");
    let row = page.lines().find(|line| line.starts_with("as configured  "));
    assert!(row.is_some_and(|row| row.contains("100%")), "{page}");
}

#[tokio::test]
async fn histories_that_fit_only_as_forwarded_are_counted_apart() {
    let mut evaluation = Evaluation::new(ModelOptions::with_window(2_800)).await;
    evaluation.add("kept.json", &session(Api::Chat, &mark("src/kept.rs"), "nothing"));
    // longhaul assumes a larger window than the model has, so that the model refuses some originals.
    let arguments = ["--profile", "standard", "--max-tokens", "64"];
    let report = evaluation.report(&[&arguments[..], &FIXED].concat()).await;
    let arm = &report["arms"][0];
    let apart = number(&arm["only_forwarded_fits"]);
    let pairs = number(&arm["same_step"]["pairs"]);
    assert!(apart > 0.0 && pairs > 0.0, "{arm}");
    assert!((number(&arm["same_step"]["treatment"]["share"]) - 1.0).abs() < 1e-9);
    let entries = evaluation.read("longhaul-eval.jsonl");
    assert!(entries.contains(r#""kind":"overflow""#));
}

#[test]
fn a_model_that_holds_the_session_is_named_and_a_smaller_window_may_be_set() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.json");
    std::fs::write(&file, crate::sessions::named("cli-0219").body).unwrap();
    let results = folder.path().join("results.jsonl");
    // Nobody agrees to the cost, so that nothing reaches the upstream.
    let plan = |model: &str| {
        let arguments = ["eval", file.to_str().unwrap(), "--window", "8000", "--model", model];
        let results = ["--summary-model", "none", "--results", results.to_str().unwrap()];
        let key = [("OPENAI_API_KEY", "k")];
        let output = crate::program::fed(&[&arguments[..], &results].concat(), &key, b"");
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        said(&output)
    };
    let holds = plan("gpt-5-mini");
    assert!(holds.contains("changed requests\n") && holds.contains("nothing was spent"), "{holds}");
    let outgrown = plan("gpt-4");
    let reason = "no request that longhaul changes fits the model's window as it came";
    assert!(outgrown.contains(reason) && outgrown.contains("; pass --model gpt-"), "{outgrown}");
    assert!(outgrown.contains("with --window 8000"), "{outgrown}");
}

#[tokio::test]
async fn summaries_are_paid_for_once() {
    let mut evaluation = Evaluation::new(ModelOptions::with_window(200_000)).await;
    let long = long_session(Api::Chat, "Go on.", &mark("src/lost.rs"));
    evaluation.add("long.json", &long);
    evaluation.env.push(("DISABLE_PRUNE", "1"));
    let arguments = ["--json", "--window", "16k", "--samples", "2"];
    let output = evaluation.run(&[&["--yes"], &arguments[..]].concat()).await;
    let first = report(&output);
    let entries = evaluation.read("longhaul-eval.jsonl");
    assert!(entries.contains(r#""kind":"summary""#), "{}", said(&output));
    assert!(!said(&output).contains(" 0 summaries"), "{}", said(&output));
    assert!(number(&first["too_large"]) > 0.0, "{first}");
    let advice = "to compare those too, ask a model with a larger window, and keep the window of \
        longhaul with --window 16000";
    assert!(said(&output).contains(advice), "{}", said(&output));
    let asked = evaluation.seen().len();
    let again = evaluation.run(&arguments).await;
    assert_eq!(report(&again)["arms"], first["arms"]);
    assert_eq!(evaluation.seen().len(), asked);
}

#[tokio::test]
async fn sessions_that_longhaul_does_not_change_are_refused_with_the_reason() {
    let mut evaluation = Evaluation::new(ModelOptions::with_window(200_000)).await;
    evaluation.add("kept.json", &session(Api::Chat, "Go on.", "nothing"));
    evaluation.env.push(("DISABLE_PRUNE", "1"));
    let output = evaluation.run(&UNPAID).await;
    assert_eq!(output.status.code(), Some(64));
    let said = said(&output);
    assert!(said.contains("longhaul changes no request of these sessions"), "{said}");
    assert!(evaluation.seen().is_empty());
}

#[tokio::test]
async fn a_refused_key_ends_the_run_at_once() {
    let evaluation = three_sessions(Api::Chat).await;
    let refusal = RefusalReply::new(401, "application/json", r#"{"error":{"message":"no"}}"#);
    evaluation.model.change(|options| options.chat = ChatBehaviour::Replies(refusal));
    let arguments = ["--yes", "--concurrency", "1", "--summary-model", "none"];
    let output = evaluation.run(&arguments).await;
    assert_eq!(output.status.code(), Some(64));
    let said = said(&output);
    assert!(said.contains("refuses the key (401 Unauthorized)"), "{said}");
    assert!(!said.contains("hunter2"));
    assert_eq!(evaluation.seen().len(), 1);
}

#[tokio::test]
async fn a_model_that_wants_the_newer_output_limit_is_asked_again_with_it() {
    let evaluation = three_sessions(Api::Chat).await;
    let words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
    let error = serde_json::json!({"error": {"message": words}}).to_string();
    let refusal = RefusalReply::new(400, "application/json", error);
    evaluation.model.change(|options| options.chat = ChatBehaviour::Replies(refusal));
    let output = evaluation.run(&["--yes", "--samples", "1", "--concurrency", "1"]).await;
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    assert!(said(&output).contains(words), "{}", said(&output));
    let limits = |request: &SeenRequest| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        ["max_tokens", "max_completion_tokens"].map(|key| body.get(key).is_some())
    };
    let seen: Vec<[bool; 2]> = evaluation.seen().iter().map(limits).collect();
    assert_eq!(seen, [[true, false], [false, true]].repeat(3));
    // A failure is not an answer: the next run asks again.
    assert!(!evaluation.path("longhaul-eval.jsonl").exists());
}

#[tokio::test]
async fn a_file_without_a_session_is_refused_before_anything_is_asked() {
    let mut evaluation = three_sessions(Api::Chat).await;
    evaluation.files.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let output = evaluation.run(&["--yes"]).await;
    assert_eq!(output.status.code(), Some(65), "{}", said(&output));
    evaluation.files.push(evaluation.path("missing.json"));
    let output = evaluation.run(&["--yes"]).await;
    assert!(said(&output).contains("missing.json"), "{}", said(&output));
    assert!(evaluation.seen().is_empty());
}
