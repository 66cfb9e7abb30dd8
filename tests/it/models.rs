//! A conversation that alternates between a small model and a large one, as with agents that plan
//! with one and act with the other. A compaction that the small model needs must not condense the
//! history for both.

use longhaul_mock_model::{Model, ModelOptions};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::journey::{STANDS_FOR_HISTORY, grows};
use crate::oracle::reader::messages;
use crate::program::Program;

const HUGE: u64 = 10_000_000;
const SETTINGS: &str = "window = 64_000\n[summary]\nmodel = 'none'\n\
                        [[model]]\nmatch = 'small'\nwindow = 16_000\n";

/// Builds `turns` turns of some 1,000 tokens each and a question, addressed to `model`.
fn body(model: &str, turns: usize) -> Vec<u8> {
    let mut all = vec![json!({"role": "system", "content": "You are an agent."})];
    for turn in 0..turns {
        all.push(json!({"role": "user", "content": format!("Task {turn}")}));
        let said: Value = format!("said in {turn:03} ").repeat(285).into();
        all.push(json!({"role": "assistant", "content": said}));
    }
    all.push(json!({"role": "user", "content": format!("Task {turns}")}));
    json!({"model": model, "messages": all}).to_string().into_bytes()
}

/// Plays a conversation of `turns` turns; `small` selects the turns sent to the small model.
/// Returns the bodies forwarded to each model.
async fn play(turns: usize, small: impl Fn(usize) -> bool) -> [Vec<Vec<u8>>; 2] {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("longhaul.toml");
    std::fs::write(&file, SETTINGS).unwrap();
    let environment = [("LONGHAUL_CONFIG", file.to_str().unwrap())];
    let program = Program::start(&model.url(), &environment);
    let caller = Caller::of(program.address());
    let mut forwarded = [Vec::new(), Vec::new()];
    for turn in 1..turns {
        let (to, name) = if small(turn) { (0, "small") } else { (1, "large") };
        assert_eq!(caller.ask(body(name, turn)).await.status, 200);
        let seen = model.seen();
        assert_eq!(seen.len(), turn, "each is sent once");
        forwarded[to].push(seen[turn - 1].body.to_vec());
    }
    forwarded
}

fn is_condensed(body: &[u8]) -> bool {
    messages(body).iter().any(|message| message.contains(STANDS_FOR_HISTORY))
}

/// Counts the forwarded bodies that do not extend the previous one.
fn breaks(forwarded: &[Vec<u8>]) -> usize {
    let pairs = forwarded.windows(2);
    pairs.filter(|pair| !grows(&pair[0], &pair[1])).count()
}

#[tokio::test]
async fn compaction_for_a_small_model_does_not_affect_a_large_one() {
    let [small, large] = play(40, |turn| turn == 30).await;
    assert!(is_condensed(&small[0]));
    assert!(!large.iter().any(|body| is_condensed(body)));
    assert_eq!(breaks(&large), 0);
}

#[tokio::test]
async fn alternating_models_break_no_more_prefixes_than_each_alone() {
    let turns = 120;
    let alone = [play(turns, |_| true).await, play(turns, |_| false).await];
    let [[small, _], [_, large]] = alone;
    let both = play(turns, |turn| turn % 4 == 0).await;
    assert!(both.iter().all(|forwarded| is_condensed(&forwarded[forwarded.len() - 1])));
    assert!(breaks(&both[0]) <= breaks(&small), "{}", breaks(&both[0]));
    assert!(breaks(&both[1]) <= breaks(&large), "{}", breaks(&both[1]));
    assert!(breaks(&large) > 1);
}
