//! Tests of the figures, and of the newest messages.

use serde_json::{Value, json};

use super::*;
use longhaul_core::dialect::Dialect;

fn prompt(before: usize, scores: &[f64]) -> ScoredPrompt {
    let tokens = scores.iter().map(|score| ("7".to_owned(), *score));
    ScoredPrompt { before, tokens: tokens.collect() }
}

#[test]
fn the_loss_is_the_difference_in_nats_over_all_tokens() {
    let whole = prompt(100, &[-1.0, -1.0]);
    let (a, b) = (prompt(40, &[-1.5, -1.5]), prompt(20, &[-1.0, -2.0]));
    let long = [prompt(60, &[-3.0]), prompt(120, &[-1.0])];
    assert_eq!(Likelihood::new(&[]), None);
    let one = Likelihood::new(&[("a", [&a, &whole]), ("a", [&b, &whole])]).unwrap();
    assert_eq!((one.steps, one.tokens, one.whole_tokens, one.interval), (2, 60, 200, None));
    assert!((one.loss - 0.5).abs() < 1e-12);
    // Two sessions: one nat over two tokens, and two nats over one.
    let both = [("a", [&a, &whole]), ("b", [&long[0], &long[1]])];
    let both = Likelihood::new(&both).unwrap();
    assert!((both.loss - 1.0).abs() < 1e-12);
    // Residuals −1 and 1: the deviation is √(2 · 2 / 1) over three tokens.
    let half = Z * 2.0 / 3.0;
    let [low, high] = both.interval.unwrap();
    assert!((low - 1.0 + half).abs() < 1e-9 && (high - 1.0 - half).abs() < 1e-9, "{low} {high}");
}

fn body(messages: &[Value]) -> String {
    json!({ "model": "m", "messages": messages, "tools": [] }).to_string()
}

#[test]
fn the_newest_messages_are_whole_units_in_at_least_the_size_of_another_history() {
    let mut all =
        vec![json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "u"})];
    for at in 0..5 {
        let id = format!("c{at}");
        let call =
            json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}});
        all.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        all.push(json!({"role": "tool", "tool_call_id": id, "content": "x".repeat(400)}));
    }
    let whole = body(&all);
    for kept in 1..=5 {
        let mut short = all[..2].to_vec();
        short.extend_from_slice(&all[12 - 2 * kept..]);
        // A size within the last unit takes the whole unit.
        let expected = body(&short);
        short[2]["content"] = "gone".into();
        short[3]["content"] = "x".repeat(300).into();
        for like in [expected.clone(), body(&short)] {
            let read = |body: &str| newest_of(&whole, body);
            assert_eq!(read(&like), expected, "{kept}");
        }
    }
}

fn newest_of(whole: &str, like: &str) -> String {
    let dialect = Dialect::ChatCompletions;
    let read = |body: &'static str| dialect.read(body.as_bytes()).unwrap();
    let leaked = |text: &str| -> &'static str { String::leak(text.to_owned()) };
    newest(&read(leaked(whole)), &read(leaked(like))).unwrap()
}
