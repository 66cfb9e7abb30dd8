//! Upstream failures that no other theme covers.

use crate::harness::{Proxy, Upstream, Wire};

const CHAT: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                    Content-Length: 2\r\n\r\n{}";

async fn asked(upstream: &Upstream, proxy: &Proxy) -> (Wire, Wire) {
    let mut client = proxy.connect().await;
    client.send(CHAT).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n{}").await;
    (client, server)
}

#[tokio::test]
async fn half_closed_upstream_counts_as_broken_unless_eof_ends_the_reply() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    for (said, expect) in [
        ("", "x-longhaul-fault: upstream_broke\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-", "x-longhaul-fault: upstream_broke\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst", "\r\n\r\nfirst"),
    ] {
        let (mut client, mut server) = asked(&upstream, &proxy).await;
        server.send(said).await;
        server.stop_sending().await;
        let reply = client.rest().await;
        assert!(reply.contains(expect), "{said:?}: {reply}");
        // The proxy sends nothing more to this upstream either.
        assert_eq!(server.rest().await, "", "{said:?}");
    }
    // A reply that ends with its connection ends cleanly here.
    let (mut client, mut server) = asked(&upstream, &proxy).await;
    server.send("HTTP/1.1 200 OK\r\n\r\nwhole").await;
    server.stop_sending().await;
    let reply = client.rest().await;
    assert!(reply.contains("5\r\nwhole\r\n0\r\n\r\n"), "{reply}");
}

#[tokio::test]
async fn relays_a_slow_reply_byte_by_byte() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let (mut client, mut server) = asked(&upstream, &proxy).await;
    for byte in "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".chars() {
        server.send(&byte.to_string()).await;
    }
    client.until("\r\n\r\n").await;
    for byte in ["w", "h", "o", "l", "e"] {
        server.send(byte).await;
        assert_eq!(client.until(byte).await, byte);
    }
    assert_eq!(client.rest().await, "");
}

/// More than socket buffers hold.
const LONG: usize = 16 << 20;

#[tokio::test]
async fn relays_the_refusal_of_an_upstream_that_resets_mid_request() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let refusal = "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 4\r\n\r\nlong";
    for path in ["/v1/chat/completions", "/v1/files"] {
        let mut client = proxy.connect().await;
        let fields = format!("Host: x\r\nConnection: close\r\nContent-Length: {LONG}\r\n");
        let head = format!("POST {path} HTTP/1.1\r\n{fields}\r\n");
        let asking = async {
            client.send(&head).await;
            client.tries_to_send(&vec![b'x'; LONG]).await;
            client.rest().await
        };
        let refusing = async {
            let mut server = upstream.accept().await;
            server.until("\r\n\r\nx").await;
            // The server closes with most of the request unread, which resets the connection.
            server.send(refusal).await;
        };
        let (reply, ()) = tokio::join!(asking, refusing);
        assert!(reply.starts_with("HTTP/1.1 413 "), "{path}: {reply}");
        assert!(reply.ends_with("\r\n\r\nlong"), "{path}: {reply}");
    }
}
