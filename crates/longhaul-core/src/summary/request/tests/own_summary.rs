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
    assert_eq!(request.previous.as_deref(), Some(own));
    let [transcript] = &request.parts[..] else {
        panic!("{:?}", request.parts);
    };
    assert!(!transcript.contains("8443") && transcript.contains("answer 0"));
    // A record's summary holds the agent's summary already.
    let record = PreviousSummary {
        text: "## Goal\nport it",
        summarised_until: 4,
        compactions: 1,
    };
    let request = brief(&body, Some(record), 32_000, 1).unwrap();
    assert_eq!(request.previous.as_deref(), Some("## Goal\nport it"));
    // Nothing follows the newest one.
    asked["messages"][6]["content"] = json!(own);
    asked["messages"][6]["role"] = json!("user");
    let request = brief(&asked.to_string(), None, 32_000, 1).unwrap();
    assert_eq!(request.previous, None);
}
