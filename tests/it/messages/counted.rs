//! Requests that count tokens: the upstream counts what longhaul would forward.

use longhaul::Config;
use longhaul::config::{Mode, SummaryModel};
use longhaul_mock_model::RequestKind;
use serde_json::{Value, json};

use super::proxied::{STANDS_FOR_HISTORY, Setup, request, session};
use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;
use crate::received_reply::ReceivedReply;
use crate::recovery::scripted::{self, Reply};

/// Returns a body as a client sends it to be counted.
fn counted(body: &Value) -> Value {
    let mut body = body.clone();
    let members = body.as_object_mut().unwrap();
    for name in ["max_tokens", "stream"] {
        members.remove(name);
    }
    body
}

fn input_tokens(reply: &ReceivedReply) -> u64 {
    assert_eq!(reply.status, 200);
    let count: Value = serde_json::from_slice(&reply.body).unwrap();
    count["input_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn a_compacted_conversation_counts_as_it_is_forwarded() {
    let setup = Setup::start(64_000, |_| ()).await;
    let session = session();
    let direct = Setup::start(64_000, |config| config.mode = Mode::Off).await;
    assert_eq!(setup.ask(&session).await.status, 200);
    let forwarded: Value = serde_json::from_slice(&setup.last().body).unwrap();
    assert!(forwarded.to_string().contains(STANDS_FOR_HISTORY));

    let body = counted(&session);
    let reply = setup.count(&body).await;
    let seen = setup.last();
    assert_eq!(seen.target, "/v1/messages/count_tokens?beta=true");
    assert_eq!(seen.headers["x-api-key"], "k");
    let sent: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(sent["messages"], forwarded["messages"]);
    assert_eq!(sent["system"], forwarded["system"]);
    let whole = input_tokens(&direct.count(&body).await);
    let count = input_tokens(&reply);
    assert!(count < 64_000 && whole > 64_000, "{count} of {whole}");
    assert!(reply.action().contains("digest"));
}

#[tokio::test]
async fn a_count_begins_nothing() {
    let config = |config: &mut Config| config.summary.model = SummaryModel::SameAsConversation;
    let setup = Setup::start(64_000, config).await;
    let session = session();
    let body = counted(&session);
    for _ in 0..2 {
        input_tokens(&setup.count(&body).await);
        let sent = setup.last();
        assert!(!String::from_utf8_lossy(&sent.body).contains(STANDS_FOR_HISTORY));
    }
    let seen = setup.model.seen();
    assert!(seen.iter().all(|it| it.kind == RequestKind::Other));
    assert_eq!(seen.len(), 2);
    // The chat finds no trace of the counts.
    let alone = Setup::start(64_000, config).await;
    assert_eq!(setup.ask(&session).await.status, 200);
    assert_eq!(alone.ask(&session).await.status, 200);
    assert_eq!(setup.last().body, alone.last().body);
}

#[tokio::test]
async fn a_count_that_needs_no_change_passes_byte_for_byte() {
    let small = counted(&request(&session(), 1));
    let mut stateful = counted(&session());
    stateful["thread"] = json!({"type": "create"});
    let odd = json!({"model": "m", "messages": "odd"});
    for body in [small, stateful, odd, json!([1])] {
        let setup = Setup::start(64_000, |_| ()).await;
        setup.count(&body).await;
        assert_eq!(setup.last().body, body.to_string());
    }
    for mode in [Mode::Off, Mode::Shadow] {
        let setup = Setup::start(64_000, |config| config.mode = mode).await;
        let body = counted(&session());
        setup.count(&body).await;
        assert_eq!(setup.last().body, body.to_string());
    }
}

#[tokio::test]
async fn a_count_that_is_refused_is_one_of_the_original() {
    let json_head = "content-type: application/json\r\n";
    let refusal = r#"{"type":"error","error":{"type":"invalid_request_error","message":"no"}}"#;
    let count = r#"{"input_tokens":7}"#;
    for (status, sends) in [(400, 2), (404, 1), (429, 1), (500, 1)] {
        let replies = [Reply::new(status, json_head, refusal), Reply::new(200, json_head, count)];
        let replies = replies.into_iter().take(sends).collect();
        let (address, asked) = scripted::upstream(replies).await;
        let base = format!("http://{address}");
        let settings = [("upstream.base", base.as_str()), ("window", "64000")];
        let mut config = Config::default_with(settings).unwrap();
        digests(&mut config);
        let proxy = Proxy::with(config).await;
        let body = counted(&session()).to_string();
        let caller = Caller::of(proxy.address);
        let reply = caller.ask_at("/v1/messages/count_tokens", &[], body.clone()).await;
        let expect = if sends == 2 { count } else { refusal };
        assert_eq!(&*reply.body, expect.as_bytes(), "{status}");
        let asked = asked.await.unwrap();
        assert_eq!(asked.len(), sends, "{status}");
        assert!(asked[0].len() < body.len(), "{status}");
        assert!(sends == 1 || asked[1].ends_with(body.as_bytes()));
    }
}
