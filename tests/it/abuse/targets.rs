//! Targets that name another server, climb out of a path, or use longhaul's own paths.

use super::{OK, Pair, SMUGGLED, request};
use crate::harness::Upstream;

/// A login that selects a built-in host where nothing is configured (`tests/it/logins.rs`). Here an upstream is.
const LOGIN: &str = "Authorization: Bearer a.b.c\r\nChatGPT-Account-ID: acc\r\n";

/// Sends a request for `target`, asserts that the client gets the reply, and returns the head that
/// the upstream received.
async fn passed(pair: &Pair, target: &str, host: &str) -> String {
    let mut client = pair.connect().await;
    client
        .send(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{LOGIN}\r\n"))
        .await;
    let mut server = pair.upstream.accept().await;
    let head = server.until("\r\n\r\n").await;
    server.send(OK).await;
    assert!(client.rest().await.ends_with("ok"), "{target}");
    head
}

/// The form of a credential alone may select among the built-in hosts, and only if no upstream, mount, key
/// or client token is configured.
#[tokio::test]
async fn no_target_or_host_header_selects_another_server() {
    let pair = Pair::start().await;
    let decoy = Upstream::bind().await;
    let own = format!("\r\nHost: {}\r\n", pair.upstream.address());
    let evil = decoy.address();
    for (target, path) in [
        (format!("http://{evil}/v1/models"), "/v1/models"),
        (format!("https://{evil}/v1/models?a=b"), "/v1/models?a=b"),
        (format!("HTTP://{evil}/v1/models"), "/v1/models"),
        (format!("http://user:pass@{evil}/v1/models"), "/v1/models"),
        (format!("/v1/models?http://{evil}/"), "/v1/models?http://ADDRESS/"),
        (format!("/v1/@{evil}/"), "/v1/@ADDRESS/"),
    ] {
        for host in [evil.to_string(), "localhost".into(), "a\tb".into(), String::new()] {
            let head = passed(&pair, &target, &host).await;
            let path = path.replace("ADDRESS", &evil.to_string());
            let line = format!("GET {path} HTTP/1.1\r\n");
            assert!(head.starts_with(&line), "{target}: {head}");
            assert!(head.contains(&own), "{target}: {head}");
            assert_eq!(head.to_ascii_lowercase().matches("\r\nhost:").count(), 1);
        }
    }
    // A path that begins with two slashes is not an authority.
    let head = passed(&pair, &format!("//{evil}/v1/models"), "x").await;
    assert!(head.starts_with(&format!("GET //{evil}/v1/models ")), "{head}");
    let tunnel = pair
        .heard(format!("CONNECT {evil} HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n"))
        .await;
    assert!(tunnel.starts_with("HTTP/1.1 405 "), "{tunnel}");
    // The marker is the first connection that the decoy receives.
    let marker = tokio::net::TcpStream::connect(evil).await.unwrap();
    let first = decoy.accept().await;
    assert_eq!(first.peer(), marker.local_addr().unwrap());
    pair.still_serves().await;
}

#[tokio::test]
async fn invalid_targets_are_refused_and_closed() {
    let pair = Pair::start().await;
    for target in [
        "@example.com/v1/models",
        "v1/models",
        "http://",
        "http:///v1/models",
        "http://a b/v1/models",
        "http://[::1/v1/models",
        "\\v1\\models",
        "/v1/ models",
    ] {
        let reply = pair.heard(request("GET", target, "", SMUGGLED)).await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "{target}: {reply}");
        assert_eq!(reply.matches("HTTP/1.1 ").count(), 1, "{target}: {reply}");
    }
    pair.still_serves().await;
}

/// Only the upstream can interpret such paths; longhaul serves no files.
#[tokio::test]
async fn path_traversal_is_forwarded_unchanged() {
    let pair = Pair::start().await;
    for target in [
        "/v1/../../../etc/passwd",
        "/v1/..%2f..%2fetc%2fpasswd",
        "/v1/%2e%2e/%2e%2e/etc/passwd",
        "/v1/..%5c..%5cwindows",
        "/v1/....//....//etc/passwd",
        "/v1/models/%00",
        "/v1/;/../admin",
        "/..;/v1/models",
        "/../v1/models",
    ] {
        let head = passed(&pair, target, "x").await;
        let line = format!("GET {target} HTTP/1.1\r\n");
        assert!(head.starts_with(&line), "{target}: {head}");
    }
    pair.still_serves().await;
}

#[tokio::test]
async fn reserved_paths_are_matched_literally_only() {
    let pair = Pair::start().await;
    for target in ["/__longhaul__/../v1/models", "/__longhaul__/x", "/__longhaul__"] {
        let close = "Connection: close\r\n";
        pair.refuses(request("GET", target, close, ""), 404).await;
    }
    for target in [
        "/v1/../__longhaul__/compact",
        "/%5f_longhaul__/compact",
        "//__longhaul__/compact",
        "/__LONGHAUL__/compact",
    ] {
        let head = passed(&pair, target, "x").await;
        assert!(head.starts_with(&format!("GET {target} ")), "{head}");
    }
    pair.still_serves().await;
}
