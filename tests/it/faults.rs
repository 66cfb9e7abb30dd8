//! Replies to a client when the upstream is unavailable: the API's error shape and a fitting
//! status.

mod client;
mod endpoint;
mod store;
mod summariser;
pub(crate) mod table;
mod upstream;

use crate::harness::{Nobody, Proxy, Upstream};

const ASK: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                   Authorization: Bearer secret\r\nContent-Length: 2\r\n\r\n{}";

fn check(reply: &str, status: &str, code: &str) {
    assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{reply}");
    assert!(reply.contains(&format!("x-longhaul-fault: {code}\r\n")), "{reply}");
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["code"], code);
    assert!(body["error"]["param"].is_null());
    assert!(!reply.contains("secret"), "{reply}");
}

async fn ask(base: &str, request: &str) -> String {
    let proxy = Proxy::start(base, &[("upstream.connect", "500ms")]).await;
    let mut client = proxy.connect().await;
    client.send(request).await;
    client.rest().await
}

#[tokio::test]
async fn upstream_that_refuses_connections_is_reported_unreachable() {
    let nobody = Nobody::bind();
    check(&ask(&nobody.base(""), ASK).await, "502", "upstream_unreachable");
}

#[tokio::test]
async fn host_name_without_an_address_is_reported_unresolved() {
    check(&ask("http://does-not-exist.invalid", ASK).await, "502", "upstream_unresolved");
}

#[tokio::test]
async fn upstream_that_hangs_in_the_tls_handshake_times_out() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("").replace("http:", "https:");
    check(&ask(&base, ASK).await, "504", "upstream_timeout");
}

#[tokio::test]
async fn https_to_a_plain_upstream_is_a_tls_fault_marked_not_retryable() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("").replace("http:", "https:");
    let serve = tokio::spawn(async move {
        let mut server = upstream.accept().await;
        server.send("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        server.drain().await;
    });
    let reply = ask(&base, ASK).await;
    check(&reply, "502", "upstream_tls");
    assert!(reply.contains("x-should-retry: false\r\n"), "{reply}");
    serve.await.unwrap();
}

#[tokio::test]
async fn upstream_that_does_not_speak_http_is_reported_malformed() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("");
    let serve = tokio::spawn(async move {
        let mut server = upstream.accept().await;
        server.until("{}").await;
        server.send("220 mail.example.com ESMTP\r\n\r\n").await;
        server.rest().await;
    });
    check(&ask(&base, ASK).await, "502", "upstream_malformed");
    serve.await.unwrap();
}

#[tokio::test]
async fn upstream_closing_before_its_reply_is_a_fault_and_not_retried() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("");
    let serve = tokio::spawn(async move {
        let mut server = upstream.accept().await;
        server.until("{}").await;
        drop(server);
        upstream
    });
    check(&ask(&base, ASK).await, "502", "upstream_broke");
    // A second attempt would be queued before this connection.
    let upstream = serve.await.unwrap();
    let marker = tokio::net::TcpStream::connect(upstream.address()).await.unwrap();
    let next = upstream.accept().await;
    assert_eq!(next.peer(), marker.local_addr().unwrap());
}

#[tokio::test]
async fn rejects_a_chat_body_with_broken_chunk_framing() {
    let upstream = Upstream::bind().await;
    let broken = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                  Transfer-Encoding: chunked\r\n\r\nno chunk\r\n";
    let reply = ask(&upstream.base(""), broken).await;
    check(&reply, "400", "request_body_broken");
    assert!(reply.contains("x-should-retry: false\r\n"), "{reply}");
}

#[tokio::test]
async fn rejects_a_target_that_is_too_long_with_the_base_path() {
    let upstream = Upstream::bind().await;
    // The HTTP library accepts targets of up to 65,534 bytes.
    let query = "x".repeat(65_520);
    let long = format!("GET /models?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let reply = ask(&upstream.base("/api/openai/v1"), &long).await;
    check(&reply, "400", "invalid_target");
}

#[tokio::test]
async fn rejects_connect_requests_and_reserved_paths() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("");
    let connect = "CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    check(&ask(&base, connect).await, "405", "not_a_forward_proxy");
    let ours = "GET /__longhaul__/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    check(&ask(&base, ours).await, "404", "reserved_path");
}

#[tokio::test]
async fn refuses_to_start_if_the_upstream_is_its_own_listener() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://localhost:{}/v1", listener.local_addr().unwrap().port());
    let config = longhaul::Config::default_with([("upstream.base", base.as_str())]).unwrap();
    let served = longhaul::run(config, listener, std::future::pending(), || ()).await;
    assert!(matches!(served, Err(longhaul::Problem::SelfLoop(_))));
}

#[tokio::test]
async fn rejects_a_transfer_coding_other_than_chunked() {
    let upstream = Upstream::bind().await;
    let coded = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\
                 Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    let reply = ask(&upstream.base(""), coded).await;
    check(&reply, "400", "transfer_coding");
    assert!(reply.contains("x-should-retry: false\r\n"), "{reply}");
}
