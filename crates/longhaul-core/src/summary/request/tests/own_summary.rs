//! Tests of requests about conversations that the agent compacted itself.

use super::*;

/// The agent compacted the conversation itself before.
#[test]
fn the_agents_own_summary_is_updated_and_not_retold() {
    let own = "This session is being continued from a previous conversation that ran out of context. 1. The port is 8443.";
    let mut asked: Value = serde_json::from_str(&body(3, "")).unwrap();
    asked["messages"][1]["content"] = json!(own);
    let body = asked.to_string();
    let request = brief(&body, None, 32_000, 1).unwrap();
    assert_eq!(request.own.as_deref(), Some(own));
    let [transcript] = &request.parts[..] else {
        panic!("{:?}", request.parts);
    };
    assert!(!transcript.contains("8443") && transcript.contains("answer 0"));
    let call = request.call_body(
        0,
        None,
        &RequestTemplate::from_request(&read(body.as_bytes()).unwrap(), None),
    );
    assert!(call.contains("8443"), "{call}");
    // An earlier segment holds the agent's summary already.
    let text: SegmentedText = "## Goal\nport it".into();
    let request = brief(&body, Some((&text, 4)), 32_000, 1).unwrap();
    assert_eq!(request.own, None);
    // Nothing follows the newest one.
    asked["messages"][6]["content"] = json!(own);
    asked["messages"][6]["role"] = json!("user");
    let request = brief(&asked.to_string(), None, 32_000, 1).unwrap();
    assert_eq!(request.own, None);
}
