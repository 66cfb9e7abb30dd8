//! Tests of requests that score a step, and of replies.

use super::*;

fn reply(ids: &[u32]) -> Vec<u8> {
    let scored = ids.iter().skip(1).map(|id| {
        json!({ id.to_string(): {"logprob": -f64::from(*id), "rank": 3, "decoded_token": "x"} })
    });
    let all: Vec<Value> = std::iter::once(Value::Null).chain(scored).collect();
    json!({ "prompt_logprobs": all }).to_string().into_bytes()
}

fn prompt(ids: &[u32]) -> ScoredPrompt {
    ScoredPrompt::read(&reply(ids)).unwrap()
}

#[test]
fn a_step_stands_behind_the_messages_and_the_request_asks_for_scores() {
    let body = json!({"messages": [{"role": "user", "content": "]"}], "tool_choice": "auto",
        "tools": [{"name": "t"}]});
    let step = r#"{"role":"assistant","content":"a"}"#;
    let read = |body: &Value, step: &str| -> Value {
        let request = scoring_request(body.to_string().as_bytes(), step);
        serde_json::from_slice(&request.unwrap()).unwrap()
    };
    let expect = json!({"tools": [{"name": "t"}], "tool_choice": "none", "prompt_logprobs": 0,
        "messages": [{"role": "user", "content": "]"}, {"role": "assistant", "content": "a"}],
        "add_generation_prompt": false});
    assert_eq!(read(&body, step), expect);
    let expect = json!({"model": "m", "messages": [{"role": "user", "content": "."}],
        "prompt_logprobs": 0, "add_generation_prompt": true});
    let shortest: Value = serde_json::from_slice(&shortest("m")).unwrap();
    assert_eq!(read(&shortest, ""), expect);
}

#[test]
fn the_step_has_the_tokens_by_which_the_shortest_prompt_grows() {
    let (without, with) = (prompt(&[1, 2]), prompt(&[1, 2, 8, 9]));
    let step = prompt(&[4, 5, 6, 2, 8, 9]).step(&with, &without).unwrap();
    assert_eq!(step.before, 4);
    assert_eq!(step.tokens, [("8".to_owned(), -8.0), ("9".to_owned(), -9.0)]);
    // A template that writes the step otherwise, and prompts too short for it.
    assert!(prompt(&[4, 5, 6, 2, 7, 9]).step(&with, &without).is_none());
    assert!(prompt(&[4, 9]).step(&with, &without).is_none());
    assert!(prompt(&[4, 8, 9]).step(&without, &without).is_none());
    assert!(prompt(&[4, 8, 9]).step(&without, &with).is_none());
}

#[test]
fn a_reply_without_a_score_for_each_token_but_the_first_is_none() {
    for reply in [
        json!({}),
        json!({"prompt_logprobs": null}),
        json!({"prompt_logprobs": []}),
        json!({"prompt_logprobs": [null, null]}),
        json!({"prompt_logprobs": [null, {}]}),
        json!({"prompt_logprobs": [null, {"1": {"logprob": "x"}}]}),
    ] {
        assert!(ScoredPrompt::read(reply.to_string().as_bytes()).is_none(), "{reply}");
    }
    assert!(ScoredPrompt::read(b"no JSON").is_none());
    // The beginning of a long prompt is not kept.
    let long = prompt(&vec![5; 40_000]);
    assert_eq!((long.before, long.tokens.len()), (40_000 - MAX_STEP, MAX_STEP));
}
