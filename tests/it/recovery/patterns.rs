//! A configured wording: longhaul recovers from a matching refusal like from any other overflow.

use longhaul::Config;

use super::scripted::{self, Reply};
use crate::harness::Proxy;
use crate::journey::{bodies, digests};
use crate::sessions::named;

const REFUSED: &str = r#"{"oops": 7, "message": "Bucket brim-full: 60,000 drops, holds 16,384."}"#;
const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;

/// Sends a request under this setting. Returns the bodies that the upstream received, and the
/// client's reply.
async fn requests(patterns: &str, replies: &[(u16, &'static str)]) -> (Vec<Vec<u8>>, String) {
    let replies = replies.iter().map(|(status, body)| Reply::new(*status, "", *body));
    let (address, asked) = scripted::upstream(replies.collect()).await;
    let base = format!("http://{address}/v1");
    let settings = [("upstream.base", base.as_str()), ("overflow.patterns", patterns)];
    let mut config = Config::default_with(settings).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    let body = bodies(&named("cli-0237").replay()).last().unwrap();
    let arrived = super::ask(&format!("http://{}/v1", proxy.address), &body).await;
    let arrived = String::from_utf8(arrived.body.to_vec()).unwrap();
    (asked.await.unwrap(), arrived)
}

#[tokio::test]
async fn configured_wording_is_compacted_to_its_stated_window() {
    let pattern = "bucket, leaking\nbrim-full: (?<input>[0-9]+) drops, holds (?<limit>[0-9]+)";
    let (asked, arrived) = requests(pattern, &[(400, REFUSED), (200, ANSWER)]).await;
    assert_eq!(arrived, ANSWER);
    assert!(asked[1].len() * 2 < asked[0].len());
}

#[tokio::test]
async fn unknown_wording_is_relayed() {
    let (asked, arrived) = requests("[]", &[(400, REFUSED)]).await;
    assert_eq!((asked.len(), arrived.as_str()), (1, REFUSED));
}
