//! Tests of the members that a summary request takes over from the client's request.

use super::*;

/// Returns `member` if a summary request takes it over from the client's request.
fn carried(member: &str, model: Option<&str>) -> Option<String> {
    let body = format!(r#"{{"model":"m",{member},"messages":[{{"role":"user","content":"hi"}}]}}"#);
    let conversation = read(body.as_bytes()).unwrap();
    let summariser = SummariserLimits { window: Tokens::new(32_000), max_calls: 1 };
    let brief = SummaryRequest::new(
        &conversation,
        &place(0..1, None),
        &budgets(),
        &Prompts::default(),
        summariser,
    )
    .unwrap();
    let request = brief.call_body(0, None, &RequestTemplate::from_request(&conversation, model));
    serde_json::from_str::<Value>(&request).unwrap();
    request.contains(member).then(|| member.to_owned())
}

#[test]
fn reduced_reasoning_carries_over_to_the_summary_but_increased_does_not() {
    for less in [
        r#""reasoning_effort":"low""#,
        r#""reasoning_effort":"none""#,
        r#""enable_thinking":false"#,
        r#""think":false"#,
        r#""thinking":{"type": "disabled"}"#,
        r#""reasoning":{"enabled":false}"#,
        r#""reasoning":{"effort":"minimal"}"#,
        r#""chat_template_kwargs":{"enable_thinking": false}"#,
    ] {
        assert_eq!(carried(less, None).as_deref(), Some(less));
        assert_eq!(carried(less, Some("other")), None, "another model: {less}");
    }
    for more in [
        r#""reasoning_effort":"high""#,
        r#""enable_thinking":true"#,
        r#""thinking":{"type":"enabled","budget_tokens":9000}"#,
        r#""reasoning":{"max_tokens":9000}"#,
        r#""reasoning":{"effort":"xhigh","exclude":true}"#,
        r#""chat_template_kwargs":{"enable_thinking":true}"#,
    ] {
        assert_eq!(carried(more, None), None);
    }
}

#[test]
fn fallback_models_apply_only_to_the_clients_own_model() {
    let (models, routing) =
        (r#""models":["a/b","c/d"]"#, r#""provider":{"data_collection":"deny"}"#);
    assert_eq!(carried(models, None).as_deref(), Some(models));
    assert_eq!(carried(models, Some("other")), None);
    for model in [None, Some("other")] {
        assert_eq!(carried(routing, model).as_deref(), Some(routing));
    }
}

#[test]
fn routing_applies_only_to_summaries_at_the_same_endpoint() {
    for routing in [
        r#""providerOptions":{"gateway":{"only":["a"],"zeroDataRetention":true}}"#,
        r#""tags":["private"]"#,
        r#""preset":"no-training""#,
    ] {
        for model in [None, Some("other")] {
            assert_eq!(carried(routing, model).as_deref(), Some(routing));
        }
        let body = format!(r#"{{{routing},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        let frame = RequestTemplate::from_request(&conversation, None).for_other_endpoint();
        let request = frame.render("s", "u", Tokens::new(1));
        assert!(!request.contains(routing), "{request}");
    }
}
