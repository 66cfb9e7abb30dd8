//! `compaction_trigger` of the Responses API.

use longhaul_mock_model::{CompactionFault, ModelOptions};
use serde_json::{Value, json};

use super::{Outcome, Play, holds_compaction};
use crate::responses::RecordedInput;

const PATH: &str = "/v1/responses";
const KEY: (&str, &str) = ("authorization", "Bearer one");
const WINDOW: u64 = 96_000;
/// A session of several windows.
const LONG: &str = "mise-8916f128";

/// Returns the recorded sessions in which the client has no compaction of its own, for a model that drops
/// reasoning behind an edit. Some recorded items are alike.
fn sessions() -> impl Iterator<Item = RecordedInput> {
    let all = RecordedInput::all().into_iter();
    let plain = all.filter(|it| it.items().iter().all(|item| item["type"] != "compaction"));
    plain.map(|mut recorded| {
        recorded.body["model"] = json!("gpt-6.2-sol");
        recorded.body["max_output_tokens"] = json!(1_000);
        for (at, item) in recorded.body["input"].as_array_mut().unwrap().iter_mut().enumerate() {
            if item["type"] == "reasoning" {
                item["encrypted_content"] = json!(format!("sealed {at}"));
            }
        }
        recorded
    })
}

fn long() -> RecordedInput {
    sessions().find(|it| it.name.starts_with(LONG)).unwrap()
}

/// Plays a session. `strike` runs before each request, with the number of requests with a compaction so far, and
/// returns the credential of the request.
async fn play(
    setup: &mut Play,
    session: &RecordedInput,
    mut strike: impl AsyncFnMut(&mut Play, &mut Value, usize) -> (&'static str, &'static str),
) -> Outcome {
    let mut outcome = Outcome::default();
    for point in session.points() {
        let mut body: Value = serde_json::from_slice(&session.request(point)).unwrap();
        let key = strike(setup, &mut body, outcome.compacted).await;
        let (reply, seen) = setup.ask((PATH, &[key]), &body).await;
        outcome.add(&format!("{} {point}", session.name), &reply, &seen);
    }
    outcome.orders = setup.orders().len();
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasoning_of_kept_turns_stays() {
    let (mut compacted, mut overtaken) = (0, 0);
    let plays_all = std::env::var("LONGHAUL_SESSIONS").is_ok_and(|wanted| wanted == "all");
    for session in sessions().step_by(if plays_all { 1 } else { 5 }) {
        let mut setup = Play::start(ModelOptions::with_window(WINDOW), &[]).await;
        let outcome = play(&mut setup, &session, async |_, _, _| KEY).await;
        // A result that fills the window at once leaves no request to compact.
        if outcome.digests == 0 {
            assert_eq!(outcome.dropped, 0, "{}: {outcome:?}", session.name);
        }
        assert_eq!(outcome.twice, 0, "{}: {outcome:?}", session.name);
        compacted += outcome.compacted;
        overtaken += usize::from(outcome.digests > 0);
    }
    println!("{compacted} requests with an item; a result overtook {overtaken} sessions");
    assert!(compacted > 100 && overtaken <= 3, "{compacted} {overtaken}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_order_costs_one_call_and_no_request() {
    use CompactionFault::{Empty, Order};
    for fault in [Order(404), Order(400), Order(529), Empty("end_turn")] {
        let mut setup = Play::start(ModelOptions::with_window(WINDOW), &[]).await;
        setup.fail(fault);
        let outcome = play(&mut setup, &long(), async |_, _, _| KEY).await;
        assert_eq!((outcome.compacted, outcome.twice), (0, 0), "{fault:?}: {outcome:?}");
        setup.no_call_repeats(&format!("{fault:?}"));
        let orders = setup.orders();
        assert!(super::is_order(&orders[0]) && !orders[1..].iter().any(super::is_order));
        assert!(outcome.digests > 0, "the digest at once: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_is_refused_later_gives_way_to_the_digest() {
    for status in [400, 404, 529] {
        let mut setup = Play::start(ModelOptions::with_window(WINDOW), &[]).await;
        let session = long();
        let outcome = play(&mut setup, &session, async |setup, _, compacted| {
            if compacted == 10 {
                setup.fail(CompactionFault::Item(status));
            }
            KEY
        });
        let outcome = outcome.await;
        assert_eq!((outcome.compacted, outcome.twice), (10, 1), "{status}: {outcome:?}");
        setup.no_call_repeats(&status.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_account_another_model_and_a_lost_store_harm_no_request() {
    type Strike = fn(&mut Value) -> (&'static str, &'static str);
    let strikes: [(&str, Strike); 2] = [
        ("account", |_| ("authorization", "Bearer two")),
        ("model", |body| {
            body["model"] = json!("gpt-6.2-astra");
            KEY
        }),
    ];
    for (name, strike) in strikes {
        let mut setup = Play::start(ModelOptions::with_window(WINDOW), &[]).await;
        let mut requests = 0;
        let session = long();
        let outcome = play(&mut setup, &session, async |_, body, compacted| {
            requests += usize::from(compacted >= 10);
            // Back again after ten requests.
            if (1..=10).contains(&requests) { strike(body) } else { KEY }
        });
        let outcome = outcome.await;
        assert_eq!(outcome.twice, 0, "{name}: {outcome:?}");
        assert!(outcome.compacted > 10, "the item waits for the way back: {outcome:?}");
        // Another account shares no record, and pays for its own.
        if name == "model" {
            setup.no_call_repeats(name);
        }
    }
    let mut setup = Play::start(ModelOptions::with_window(WINDOW), &[]).await;
    let mut is_lost = false;
    let session = long();
    let outcome = play(&mut setup, &session, async |setup, _, compacted| {
        if compacted == 10 && !std::mem::replace(&mut is_lost, true) {
            setup.restart().await;
        }
        KEY
    });
    let outcome = outcome.await;
    assert_eq!(outcome.twice, 0, "{outcome:?}");
}

/// Two accounts share the records of a scope that a header names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_of_another_account_in_one_scope_is_refused_once() {
    let shared = [("store.scope", "header:x-caller"), ("store.trusted_headers", "x-caller")];
    let setup = Play::start(ModelOptions::with_window(WINDOW), &shared).await;
    let session = long();
    let mut outcome = Outcome::default();
    for point in session.points() {
        let body: Value = serde_json::from_slice(&session.request(point)).unwrap();
        let key = if outcome.compacted < 10 { KEY } else { ("authorization", "Bearer two") };
        let (reply, seen) = setup.ask((PATH, &[key, ("x-caller", "a")]), &body).await;
        outcome.add(&point.to_string(), &reply, &seen);
    }
    assert_eq!((outcome.compacted, outcome.twice), (10, 1), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_repeats_the_bytes_of_a_request() {
    let mut setup = Play::start(ModelOptions::with_window(WINDOW), &[]).await;
    play(&mut setup, &long(), async |_, _, _| KEY).await;
    let (orders, seen) = (setup.orders(), setup.model.seen());
    let mut with_item = 0;
    for order in &orders {
        let body = String::from_utf8_lossy(&order.body);
        let (input, _) = body.split_once(r#","stream":true"#).unwrap_or((&body, ""));
        let start = input.find(r#""input":["#).unwrap();
        let end = input.find(r#",{"type":"compaction_trigger"}]"#).unwrap();
        let input = &input[start..end];
        let is_sent = |it: &&longhaul_mock_model::SeenRequest| {
            !super::is_order(it) && String::from_utf8_lossy(&it.body).contains(input)
        };
        assert!(seen.iter().any(|it| is_sent(&it)), "the bytes were sent before");
        assert_eq!(order.headers["authorization"], "Bearer one");
        with_item += usize::from(holds_compaction(order));
    }
    assert!(orders.len() > 1 && with_item + 1 == orders.len(), "{with_item}");
}
