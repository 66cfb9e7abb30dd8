//! The form of requests and replies, and requests that no client means to send.

use http::Method;
use longhaul_mock_model::session;
use serde_json::{Value, json};

use super::{Compressed, PATH, Service};
use crate::manual::ask;

#[tokio::test]
async fn invalid_requests_get_the_error_of_the_form() {
    let service = Service::start(&[]).await;
    for body in [
        "",
        "{",
        "[]",
        r#"{"model":"m"}"#,
        r#"{"messages":[]}"#,
        r#"{"messages":"hi","model":"m"}"#,
        r#"{"messages":[],"model":["m"]}"#,
        "\u{feff}{}",
    ] {
        let reply = service.post(&[], body.as_bytes()).await;
        assert_eq!(reply.status, 400, "{body}");
        let error: Value = serde_json::from_slice(&reply.body).unwrap();
        if !body.is_empty() {
            assert_eq!(error["error"]["type"], "invalid_request", "{body}");
        }
        assert!(error["error"]["message"].is_string(), "{body}");
    }
}

#[tokio::test]
async fn empty_lists_and_bypassed_ones_come_back_as_they_came() {
    let service = Service::start(&[("window", "10000")]).await;
    let empty = Compressed::read(&service.post(&[], br#"{"messages":[],"model":"m"}"#).await);
    assert_eq!((empty.messages.len(), empty.before, empty.after), (0, 0, 0));

    let last = session().unwrap().requests().next_back().unwrap().body();
    let chat: Value = serde_json::from_slice(&last).unwrap();
    let body = json!({"messages": chat["messages"], "model": "gpt-5.1", "unknown": {"a": [1]}});
    let body = body.to_string();
    let changed = Compressed::read(&service.post(&[], body.as_bytes()).await);
    assert!(changed.after < changed.before && !changed.applied.is_empty());
    for fields in [
        [("x-headroom-bypass", "true")],
        [("X-Headroom-Bypass", "TRUE")],
        [("x-longhaul-mode", "off")],
    ] {
        let reply = Compressed::read(&service.post(&fields, body.as_bytes()).await);
        assert_eq!(Value::Array(reply.messages), chat["messages"], "{fields:?}");
        assert_eq!((reply.before, reply.after, reply.applied.len()), (0, 0, 0));
    }
    let reply = service.post(&[("x-headroom-bypass", "false")], body.as_bytes()).await;
    assert_eq!(Compressed::read(&reply).list, changed.list);
    let shadow = service.post(&[("x-longhaul-mode", "shadow")], body.as_bytes()).await;
    let shadow = Compressed::read(&shadow);
    assert_eq!(Value::Array(shadow.messages), chat["messages"]);
    assert_eq!(shadow.before, shadow.after);
}

#[tokio::test]
async fn bytes_of_untouched_messages_are_the_callers_own() {
    let service = Service::start(&[]).await;
    let list = r#"[ {"role" : "user","content":"\u00e9 caf\u00e9 1e999","n":1.50,"x":[ ]} ,
        {"content":null,"role":"assistant","z":123456789012345678901234567890} ]"#;
    let body = format!(r#"{{"model":"m","config":{{}},"messages":{list}}}"#);
    let reply = service.post(&[], body.as_bytes()).await;
    let text = str::from_utf8(&reply.body).unwrap();
    assert!(text.starts_with(&format!(r#"{{"messages":{list},"#)), "{text}");
}

#[tokio::test]
async fn odd_messages_come_back_as_they_came() {
    let service = Service::start(&[("window", "1000")]).await;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let many = format!("[{}0]", "0,".repeat(300_000));
    let odd = [
        "[1,null,\"a\",[]]",
        r#"[{"role":"user","content":{"a":1}},{"role":"tool"}]"#,
        r#"[{"role":"tool","content":"x","tool_call_id":{"a":1}}]"#,
        r#"[{"role":"tool","content":"\ud800","tool_call_id":"a"},{"role":"tool","content":"b"}]"#,
        r#"[{"role":"user","role":"assistant","content":1e99999}]"#,
        r#"[{"type":"item_reference","id":"a"},{"type":"compaction","encrypted_content":"b"}]"#,
        &format!(r#"[{{"role":"user","content":{deep}}}]"#),
        &many,
    ];
    for list in odd {
        let body =
            format!(r#"{{"messages":{list},"model":"m","token_budget":99999999999999999999}}"#);
        let reply = service.post(&[], body.as_bytes()).await;
        let shown = &list[..list.len().min(60)];
        assert_eq!(reply.status, 200, "{shown}");
        let text = str::from_utf8(&reply.body).unwrap();
        assert!(text.starts_with(&format!(r#"{{"messages":{list},"#)), "{shown}");
    }
}

#[tokio::test]
async fn a_hundred_megabytes_are_answered() {
    let service = Service::start(&[]).await;
    let words = "0123456789abcdef".repeat(64 * 1024);
    let step = |at: usize| {
        let call = json!({"id": format!("c{at}"), "type": "function",
            "function": {"name": "read", "arguments": "{}"}});
        let call = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let result = json!({"role": "tool", "tool_call_id": format!("c{at}"), "content": words});
        [call, result]
    };
    let user = json!({"role": "user", "content": "Read."});
    let messages: Vec<Value> = std::iter::once(user).chain((0..100).flat_map(step)).collect();
    let body = json!({"messages": messages, "model": "gpt-5.1"}).to_string();
    assert!(body.len() > 100_000_000);
    let reply = Compressed::read(&service.post(&[], body.as_bytes()).await);
    assert!(reply.after < reply.before / 10, "{} of {}", reply.after, reply.before);

    let small = Service::start(&[("limits.body", "1MiB"), ("limits.buffered", "4MiB")]).await;
    let refused = small.post(&[], body.as_bytes()).await;
    assert_eq!((refused.status, refused.field("fault")), (413, Some("chat_too_large")));
    // The body fits, and the changed body beside it does not.
    let half = json!({"messages": messages[..3], "model": "gpt-5.1", "pad": ""});
    let half = half.to_string().replace("0123456789abcdef", "01234567");
    let held = Service::start(&[("limits.body", "1MiB"), ("limits.buffered", "1MiB")]).await;
    let crowded = ask((Method::POST, &held.url(), PATH), &[], half.as_bytes()).await;
    assert_eq!((crowded.status, crowded.field("fault")), (503, Some("crowded")));
}
