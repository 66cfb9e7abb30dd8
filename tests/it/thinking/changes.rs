//! Forks, other models, and settings that change within a conversation.

use longhaul::Config;
use longhaul_mock_model::{ThinkingRules, Verdict};

use crate::caller::Caller;
use crate::harness::Proxy;
use crate::manual::compact;
use crate::recovery::scripted::{Reply, upstream};
use crate::time_limit::bounded;

use super::agent::{Agent, Play, stale_refusals, unharmed};
use super::{BINDING, options, within};

const WINDOW: u64 = 32_768;
const OFF: (&str, &str) = ("x-longhaul-mode", "off");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forks_and_undos_show_no_refusal_to_the_client() {
    for (session, rules, model) in cases() {
        let play = Play::start(options(WINDOW, rules), within(WINDOW)).await;
        let mut agent = agent(&session, rules, model);
        let (half, whole) = (agent.len() / 2, agent.len());
        let mut steps = play.part(&mut agent, 0..half).await;
        for back in [3, 12, 30].map(|back| usize::min(back, half - 1)) {
            // An undo repeats a request; a fork goes on with other words.
            steps.extend(play.part(&mut agent, half - back..half).await);
            agent.fork(half - back, &format!("Go back {back} steps."));
            steps.extend(play.part(&mut agent, half - back..half).await);
        }
        steps.extend(play.part(&mut agent, half..whole).await);
        unharmed(&format!("{session} {rules:?}"), &steps);
    }
}

/// Sessions, with each rule and a model that it applies to.
fn cases() -> impl Iterator<Item = (String, ThinkingRules, &'static str)> {
    let (sessions, _) = super::wanted();
    let rules = [
        (ThinkingRules::Bound, BINDING),
        (ThinkingRules::Manual, super::MANUAL),
        (ThinkingRules::Unenforced, BINDING),
    ];
    let of_session =
        move |session: String| rules.map(|(rules, model)| (session.clone(), rules, model));
    sessions.into_iter().flat_map(of_session)
}

/// Returns the agent of a session, with the thinking that the rules expect.
fn agent(session: &str, rules: ThinkingRules, model: &str) -> Agent {
    let mut agent = Agent::new(session, model);
    if rules == ThinkingRules::Manual {
        agent.set("thinking", r#"{"type":"enabled","budget_tokens":2000}"#);
    }
    agent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn switching_between_models_shows_no_refusal_to_the_client() {
    for (session, rules, model) in cases() {
        let play = Play::start(options(WINDOW, rules), within(WINDOW)).await;
        let mut agent = agent(&session, rules, model);
        let other =
            if rules == ThinkingRules::Manual { "claude-sonnet-4-5" } else { "claude-fable-5-2" };
        let mut steps = Vec::new();
        for request in 0..agent.len() {
            let model = if request / 10 % 2 == 0 { model } else { other };
            agent.set("model", &format!("{model:?}"));
            steps.push(play.step(&mut agent, request, (0, &[])).await);
        }
        unharmed(&format!("{session} {rules:?}"), &steps);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edited_conversation_is_refused_with_mode_off_and_continues_with_on() {
    let play = Play::start(options(WINDOW, ThinkingRules::Bound), within(WINDOW)).await;
    let mut agent = Agent::new("cli-0018", BINDING);
    let whole = agent.len();
    let mut steps = Vec::new();
    let mut edited = None;
    for request in 0..whole {
        let step = play.step(&mut agent, request, (0, &[])).await;
        let has_edit = step.arrived.action().contains("digest");
        steps.push(step);
        if has_edit && edited.is_none() {
            edited = Some(request);
        }
        // The first reply over the edited bytes has its place in the next request.
        if edited.is_some_and(|edited| request == edited + 2) {
            let off = play.step(&mut agent, request + 1, (0, &[OFF])).await;
            let verdicts: Vec<_> = off.upstream.iter().map(|seen| seen.verdict).collect();
            assert_eq!(verdicts, [Verdict::Broken("stale-thinking")]);
            assert_eq!(off.arrived.status, 400);
        }
    }
    assert!(edited.is_some());
    unharmed("on again", &steps);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_longhaul_did_not_cause_is_relayed_once() {
    let play = Play::start(options(1_000_000, ThinkingRules::Bound), |_| ()).await;
    let mut agent = Agent::new("cli-0018", BINDING);
    unharmed("before", &play.part(&mut agent, 0..6).await);
    agent.set("tools", "[]");
    let step = play.step(&mut agent, 6, (0, &[])).await;
    assert_eq!((step.arrived.status, step.upstream.len()), (400, 1));
    assert_eq!(step.upstream[0].body, step.sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_requests_drop_block_keeps_all_thinking() {
    let play = Play::start(options(WINDOW, ThinkingRules::Unenforced), |config: &mut Config| {
        super::digests(config);
    })
    .await;
    let mut agent = Agent::new("cli-0018", BINDING);
    agent.set(
        "thinking",
        r#"{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}"#,
    );
    let steps = play.whole(&mut agent).await;
    unharmed("dropped", &steps);
    for step in &steps {
        assert!(!step.arrived.action().contains("without-thinking"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_accepted_stale_thinking_keeps_it_in_a_retry_after_an_overflow() {
    let play = Play::start(options(WINDOW, ThinkingRules::Unenforced), within(WINDOW)).await;
    let mut agent = Agent::new("cli-0018", BINDING);
    let (half, whole) = (agent.len() / 2, agent.len());
    let mut steps = play.part(&mut agent, 0..half).await;
    assert!(steps.iter().any(|step| step.arrived.action().contains("digest")));
    play.model.change(|options| options.window = WINDOW * 2 / 3);
    steps.extend(play.part(&mut agent, half..whole).await);
    unharmed("not enforced", &steps);
    assert!(steps.iter().any(|step| step.upstream.len() == 2), "a retry");
    for step in &steps {
        assert!(!step.arrived.action().contains("without-thinking"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disabled_thinking_removal_sends_the_original_after_a_refusal() {
    let change = |config: &mut Config| {
        within(WINDOW)(config);
        config.compaction.remove_thinking = false;
    };
    let play = Play::start(options(WINDOW, ThinkingRules::Bound), change).await;
    let mut agent = Agent::new("cli-0018", BINDING);
    for request in 0..agent.len() {
        let step = play.step(&mut agent, request, (0, &[])).await;
        assert!(!step.arrived.action().contains("without-thinking"));
        if stale_refusals(std::slice::from_ref(&step)) > 0 {
            assert_eq!(step.arrived.action(), "prune, original");
            assert!(step.arrived.is_answer(), "the original still fits");
            return;
        }
    }
    panic!("no edit was refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_name_without_known_binding_costs_one_refusal() {
    let play = Play::start(options(WINDOW, ThinkingRules::Bound), super::digests).await;
    let mut agent = Agent::new("cli-0018", "claude-opus-4-5");
    let (mut steps, mut refused) = (Vec::new(), 0);
    for request in 0..agent.len() {
        let mut step = play.step(&mut agent, request, (0, &[])).await;
        if !step.arrived.is_answer() {
            refused += 1;
            step = play.step(&mut agent, request, (0, &[])).await;
        }
        steps.push(step);
    }
    unharmed("after it", &steps);
    assert_eq!(refused, 1, "the retry after the first overflow");
}

/// A refusal at the head of a stream, after a comment, as gateways send it.
const STREAMED_REFUSAL: &str = ": PROCESSING\n\ndata: {\"error\":{\"code\":400,\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.\"}}\n\n";
const ANSWER: &str = r#"{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}]}"#;

#[tokio::test]
async fn recognises_a_streamed_refusal_even_if_the_request_surely_fits() {
    let mut agent = Agent::new("cli-0018", BINDING);
    agent.sign_all();
    agent.set("stream", "true");
    let (address, asked) = upstream(vec![
        Reply::new(200, "content-type: text/event-stream\r\n", STREAMED_REFUSAL),
        Reply::new(200, "content-type: application/json\r\n", ANSWER),
    ])
    .await;
    let base = format!("http://{address}/v1");
    let settings = [("window", "1000000"), ("summary.model", "none")];
    let proxy = Proxy::start(&base, &settings).await;
    let caller = Caller::of(proxy.address);
    let now = [("x-longhaul-compact", "now")];
    let reply = caller.ask_with(&now, agent.body(agent.len() - 1)).await;
    assert_eq!(reply.action(), "digest, retry, without-thinking");
    assert_eq!(reply.body, ANSWER);
    let asked = bounded(asked).await.unwrap();
    assert!(signatures(&asked[0]) > 0);
    assert_eq!(signatures(&asked[1]), 0);
}

/// Returns the number of signed blocks of thinking in `body`.
fn signatures(body: &[u8]) -> usize {
    let text = String::from_utf8_lossy(body);
    text.matches("signature\":").count()
}

#[tokio::test]
async fn without_a_second_try_an_edit_goes_without_thinking_at_once() {
    let mut agent = Agent::new("cli-0018", BINDING);
    agent.sign_all();
    let whole = agent.body(agent.len() - 1);
    assert!(signatures(&whole) > 0);
    let answer = Reply::new(200, "content-type: application/json\r\n", ANSWER);
    let (address, asked) = upstream(vec![answer]).await;
    let base = format!("http://{address}/v1");
    let settings =
        [("window", "1000000"), ("summary.model", "none"), ("compact.overflow_disabled", "true")];
    let proxy = Proxy::start(&base, &settings).await;
    let now = [("x-longhaul-compact", "now")];
    let reply = Caller::of(proxy.address).ask_with(&now, whole).await;
    assert_eq!(reply.action(), "without-thinking, digest");
    assert_eq!(signatures(&bounded(asked).await.unwrap()[0]), 0);
}

#[tokio::test]
async fn the_body_of_an_explicit_compaction_has_no_thinking_behind_its_edits() {
    let mut agent = Agent::new("cli-0018", BINDING);
    agent.sign_all();
    let whole = agent.body(agent.len() - 1);
    let settings = [("window", "1000000"), ("summary.model", "none")];
    let proxy = Proxy::start("http://127.0.0.1:9/v1", &settings).await;
    let reply = compact(&format!("http://{}/v1", proxy.address), &whole).await;
    assert_eq!(reply.action(), "without-thinking, digest");
    assert!(signatures(&whole) > 0);
    assert_eq!(signatures(&reply.body), 0);
}
