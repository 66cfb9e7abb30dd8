//! Line ends inside header values.

use super::{CHAT, OK, Pair, request};

#[tokio::test]
async fn malformed_header_lines_are_refused_and_closed() {
    let pair = Pair::start().await;
    for fields in [
        "X-One: a\rX-Two: b\r\n",
        "X-One: a\r\rb\r\n",
        "X-One: \0\r\n",
        "X-One: a\0b\r\n",
        "X-One\r: a\r\n",
        "X-\0: a\r\n",
        "X One: a\r\n",
        ": a\r\n",
        "X-One\r\n",
    ] {
        pair.refuses(request("GET", "/v1/models", fields, ""), 400).await;
    }
    pair.still_serves().await;
}

/// longhaul reads a bare LF as a line end (RFC 9112, 2.2) and forwards it as CRLF. No server
/// after longhaul can read the LF as part of a value.
#[tokio::test]
async fn bare_line_feed_is_forwarded_as_crlf() {
    let pair = Pair::start().await;
    let mut client = pair.connect().await;
    let ask = request("GET", "/v1/models", "X-One: a\nX-Two: b\nConnection: close\n", "");
    client.send(&ask).await;
    let mut server = pair.upstream.accept().await;
    let head = server.until("\r\n\r\n").await;
    assert!(head.contains("\r\nX-One: a\r\nX-Two: b\r\n"), "{head}");
    assert_eq!(head.matches('\n').count(), head.matches("\r\n").count());
    server.send(OK).await;
    assert!(client.rest().await.ends_with("ok"));
    pair.still_serves().await;
}

/// Encoded line ends, and line ends in a body, remain text even when longhaul copies them
/// elsewhere.
#[tokio::test]
async fn encoded_line_ends_never_become_real_ones() {
    let pair = Pair::start().await;
    let target = "/v1/models/%0d%0aX-Evil:%201?a=%0D%0A";
    let body = r#"{"model":"m\r\nX-Evil: 1\r\n\r\n","messages":[{"role":"user\r\nX-Evil: 1","content":"\r\nX-Evil: 1"}]}"#;
    for (ask, tail) in [
        (request("GET", target, "Connection: close\r\n", ""), "\r\n\r\n".to_owned()),
        (
            request(
                "POST",
                CHAT,
                &format!(
                    "Connection: close\r\nx-longhaul-compact: now\r\nContent-Length: {}\r\n",
                    body.len()
                ),
                body,
            ),
            format!("\r\n\r\n{body}"),
        ),
    ] {
        let mut client = pair.connect().await;
        client.send(&ask).await;
        let mut server = pair.upstream.accept().await;
        let heard = server.until(&tail).await;
        assert!(!heard.contains("\nX-Evil"), "{heard}");
        server.send(OK).await;
        let reply = client.rest().await;
        assert!(reply.ends_with("\r\n\r\nok"), "{reply}");
        assert!(!reply.contains("X-Evil"), "{reply}");
    }
    pair.still_serves().await;
}

#[tokio::test]
async fn line_end_in_an_upstream_header_value_reaches_no_client() {
    let pair = Pair::start().await;
    for value in ["a\rSet-Cookie: evil", "a\0b", "a\r\r\nb"] {
        let mut client = pair.connect().await;
        let ask = request("GET", "/v1/models", "Connection: close\r\n", "");
        client.send(&ask).await;
        let mut server = pair.upstream.accept().await;
        server.until("\r\n\r\n").await;
        let head = format!("HTTP/1.1 200 OK\r\nX-One: {value}\r\nContent-Length: 0\r\n\r\n");
        server.send(&head).await;
        let reply = client.rest().await;
        assert!(reply.starts_with("HTTP/1.1 502 "), "{value:?}: {reply}");
    }
    pair.still_serves().await;
}
