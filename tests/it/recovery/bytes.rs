//! A limit on bytes: images give way to markers, the oldest first.

use longhaul::Config;
use serde_json::{Value, json};

use super::scripted::{self, Reply};
use crate::harness::Proxy;
use crate::journey::digests;
use crate::oracle::reader::messages;

fn picture(words: &str) -> Value {
    let url = format!("data:image/png;base64,{}", "A".repeat(9_000));
    json!({"role": "user", "content": [
        {"type": "text", "text": words}, {"type": "image_url", "image_url": {"url": url}}]})
}

#[tokio::test]
async fn images_before_the_newest_user_turn_become_markers() {
    let all = [
        json!({"role": "system", "content": "s"}),
        picture("old"),
        json!({"role": "assistant", "content": "a"}),
        picture("new"),
    ];
    let body = json!({"model": "m", "messages": all}).to_string();
    let answer = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;
    let (address, asked) = scripted::upstream(vec![
        Reply::new(
            413,
            "content-type: text/html\r\n",
            "<html>413 Request Entity Too Large</html>",
        ),
        Reply::new(200, "content-type: application/json\r\n", answer),
    ])
    .await;
    let base = format!("http://{address}/v1");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    let arrived = super::ask(&format!("http://{}/v1", proxy.address), body.as_bytes()).await;
    assert_eq!(
        (arrived.status, &arrived.body[..]),
        (200, answer.as_bytes())
    );
    assert_eq!(arrived.action(), "fewer-bytes");
    let asked = asked.await.unwrap();
    assert_eq!(asked[0], body.as_bytes());
    let (before, after) = (messages(&asked[0]), messages(&asked[1]));
    for at in [0, 2, 3] {
        assert_eq!(before[at], after[at]);
    }
    let old: Value = after[1].parse().unwrap();
    let expect = json!([{"type": "text", "text": "old"}, {"type": "text", "text": "[image]"}]);
    assert_eq!(old["content"], expect);
}
