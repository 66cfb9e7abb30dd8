//! Callers that are served, and the records that count for them.

use std::io::Write as _;

use http::Method;
use longhaul_mock_model::{Model, ModelOptions, session};
use serde_json::{Value, json};

use super::{Compressed, ENABLED, PATH, Service};
use crate::harness::Proxy;
use crate::journey::STANDS_FOR_HISTORY;
use crate::manual::ask;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Returns the last request of a recorded session.
fn chat() -> Value {
    let last = session().unwrap().requests().next_back().unwrap().body();
    serde_json::from_slice(&last).unwrap()
}

/// Returns a request for the messages of that session, with further fields.
fn request(further: &Value) -> (Value, Vec<u8>) {
    let messages = chat()["messages"].take();
    let mut request = json!({"messages": messages, "model": "gpt-5.1"});
    for (key, value) in further.as_object().unwrap() {
        request[key] = value.clone();
    }
    (messages, request.to_string().into())
}

#[tokio::test]
async fn path_belongs_to_the_upstream_unless_the_setting_is_on() {
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let proxy = Proxy::start(&model.url(), &[]).await;
    let url = format!("http://{}/v1", proxy.address);
    let (_, body) = request(&json!({}));
    let reply = ask((Method::POST, &url, PATH), &[], &body).await;
    assert_eq!(reply.status, 404, "the upstream's own answer");
    assert_eq!(reply.field("fault"), None);
    let service = Service::start(&[]).await;
    let reply = ask((Method::GET, &service.url(), PATH), &[], b"").await;
    assert_eq!(reply.field("fault"), Some("upstream_unreachable"));
}

#[tokio::test]
async fn other_machines_need_a_client_token() {
    let (_, body) = request(&json!({}));
    let far = ("x-forwarded-for", "192.0.2.1");
    let trusted = ("limits.trusted_proxies", "127.0.0.0/8");
    let open = Service::start(&[trusted]).await;
    assert_eq!(open.post(&[], &body).await.status, 200);
    let refused = open.post(&[far], &body).await;
    assert_eq!((refused.status, refused.field("fault")), (401, Some("invalid_token")));

    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{TOKEN}").unwrap();
    let path = file.path().to_str().unwrap();
    let closed = Service::start(&[trusted, ("client_tokens_file", path)]).await;
    let bearer = format!("Bearer {TOKEN}");
    let bearer = ("authorization", bearer.as_str());
    assert_eq!(closed.post(&[far, bearer], &body).await.status, 200);
    for fields in [&[far][..], &[], &[("authorization", "Bearer x")]] {
        assert_eq!(closed.post(fields, &body).await.status, 401, "{fields:?}");
    }
    let page = ("origin", "https://example.org");
    assert_eq!(open.post(&[page], &body).await.field("fault"), Some("foreign_page"));
}

#[tokio::test]
async fn records_of_gateways_and_of_proxied_callers_do_not_meet() {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let changes = [ENABLED, ("window", "1000000"), ("summary.model", "none")];
    let proxy = Proxy::start(&model.url(), &changes).await;
    let url = format!("http://{}/v1", proxy.address);
    let key = [("authorization", "Bearer k")];
    let (messages, small) = request(&json!({"token_budget": 20_000}));
    let reply = Compressed::read(&ask((Method::POST, &url, PATH), &key, &small).await);
    assert!(reply.after <= 20_000 && reply.applied.contains(&"digest".to_owned()), "{reply:?}");

    // A proxied caller with the same key and messages starts from no record.
    let chat = chat().to_string();
    for path in ["/v1/chat/completions", "/v1/compress/chat/completions"] {
        let arrived = ask((Method::POST, &url, path), &key, chat.as_bytes()).await;
        assert_eq!(arrived.action(), "", "{path}");
    }
    assert_eq!(model.seen()[0].body, chat.as_bytes());

    // A proxied caller's record changes nothing that a gateway gets back.
    let now = [key[0], ("x-longhaul-compact", "now")];
    let path = "/v1/chat/completions";
    let compacted = ask((Method::POST, &url, path), &now, chat.as_bytes()).await;
    assert_eq!(compacted.action(), "digest");
    let (_, other) = request(&json!({"config": {"session_id": "other"}}));
    for fields in [&[][..], &key] {
        let reply = Compressed::read(&ask((Method::POST, &url, PATH), fields, &other).await);
        assert_eq!(reply.messages, *messages.as_array().unwrap());
    }
}

#[tokio::test]
async fn a_session_starts_from_its_own_record() {
    let service = Service::start(&[("window", "1000000")]).await;
    let of = |session: &str, budget: Option<u64>| {
        let (_, body) = request(
            &json!({"token_budget": budget, "config": {"session_id": session, "mode": "ccr"}}),
        );
        body
    };
    let has_digest = |reply: &Compressed| reply.list.contains(STANDS_FOR_HISTORY);
    let first = Compressed::read(&service.post(&[], &of("a", Some(20_000))).await);
    assert!(has_digest(&first));
    let again = Compressed::read(&service.post(&[], &of("a", None)).await);
    assert_eq!(again.list, first.list, "the same session repeats what it sent");
    let other = Compressed::read(&service.post(&[], &of("b", None)).await);
    assert!(!has_digest(&other));
}
