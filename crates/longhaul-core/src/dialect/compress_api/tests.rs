//! Requests in each form, odd ones, and replies.

use super::*;
use serde_json::Value;

const CALL: &str = r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#;

fn parse(body: &str) -> CompressRequest<'_> {
    CompressRequest::parse(body.as_bytes()).unwrap()
}

#[track_caller]
fn check_form(messages: &str, expect: (Dialect, SentPart)) {
    let body = format!(r#"{{"messages":[{messages}],"model":"m"}}"#);
    let request = parse(&body);
    assert_eq!((request.dialect, request.part), expect, "{messages}");
    let chat = request.chat_body();
    let read = request.dialect.read(chat.as_bytes());
    assert_eq!(read.err(), None, "{chat}");
    let reply = request.changed(&chat, (Tokens::new(8), Tokens::new(4)), &["prune"]);
    let reply: Value = reply.unwrap().parse().unwrap();
    let sent: Value = body.parse().unwrap();
    assert_eq!(reply["messages"], sent["messages"]);
    assert_eq!(reply["tokens_saved"], 4);
    assert_eq!(reply["compression_ratio"], 0.5);
    assert_eq!(reply["transforms_applied"][0], "prune");
}

#[test]
fn messages_show_their_dialect_by_their_shape() {
    use Dialect::{ChatCompletions as Chat, Messages, Responses};
    let user = r#"{"role":"user","content":"go"}"#;
    let whole = |dialect| (dialect, SentPart::Messages);
    let result = r#"{"role":"tool","tool_call_id":"a","content":"[{\"type\":\"tool_use\"}]"}"#;
    let call = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{CALL}]}}"#);
    check_form("", whole(Chat));
    check_form(user, whole(Chat));
    check_form(&[user, &call, result].join(" , "), whole(Chat));
    check_form(&[user, result, result].join(",\n"), (Chat, SentPart::Results));
    let thinking = r#"{"role":"assistant","content":"a","thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s"}]}"#;
    check_form(&[user, thinking].join(","), whole(Chat));
    let block =
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}"#;
    check_form(&[user, block].join(","), whole(Messages));
    let item = r#"{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}"#;
    check_form(&[user, item].join(","), whole(Responses));
    let body = format!(r#"{{"input":[{user}],"model":"m"}}"#);
    assert_eq!(parse(&body).dialect, Responses);
}

#[test]
fn options_of_another_kind_count_for_nothing() {
    for (options, budget, session) in [
        (r#""token_budget":5000,"config":{"session_id":"s","mode":"ccr"}"#, Some(5_000), "s"),
        (r#""token_budget":1,"config":{"session_id":7}"#, Some(1), ""),
        (r#""token_budget":0,"config":[]"#, None, ""),
        (r#""token_budget":1e999,"config":null"#, None, ""),
        (r#""token_budget":-7,"gateway":{"can_redrive":true}"#, None, ""),
    ] {
        let body = format!(r#"{{"messages":[],"model":"m",{options}}}"#);
        let request = parse(&body);
        assert_eq!(request.budget, budget.map(Tokens::new), "{options}");
        assert_eq!(request.session, session, "{options}");
    }
}

#[test]
fn invalid_requests_name_their_fault() {
    for (body, field) in [
        ("", "JSON"),
        ("[]", "JSON"),
        (r#"{"messages":[],"model":"m""#, "JSON"),
        (r#"{"messages":[],"messages":[],"model":"m"}"#, "twice"),
        (r#"{"model":"m"}"#, "messages"),
        (r#"{"messages":{},"model":"m"}"#, "messages"),
        (r#"{"messages":null,"model":"m"}"#, "messages"),
        (r#"{"messages":[]}"#, "model"),
        (r#"{"messages":[],"model":7}"#, "model"),
    ] {
        let why = CompressRequest::parse(body.as_bytes()).unwrap_err();
        assert!(why.contains(field), "{body}: {why}");
        let error: Value = error_body(why).parse().unwrap();
        assert_eq!(error["error"]["type"], "invalid_request");
    }
}

#[test]
fn a_reply_has_as_many_results_as_were_sent() {
    let body = r#"{"messages":[{"role":"tool","tool_call_id":"a","content":"b"}],"model":"m"}"#;
    let request = parse(body);
    let sizes = (Tokens::ZERO, Tokens::ZERO);
    for other in [r#"{"messages":[]}"#, "{}", ""] {
        assert_eq!(request.changed(other, sizes, &[]), None, "{other}");
    }
    let unchanged: Value = request.unchanged().parse().unwrap();
    assert_eq!(
        (&unchanged["tokens_before"], &unchanged["compression_ratio"]),
        (&0.into(), &1.0.into())
    );
}
