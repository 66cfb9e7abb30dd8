//! Requests whose end two servers could place differently.

use super::{CHAT, OK, ORDINARY, Pair, SMUGGLED, request};

#[tokio::test]
async fn invalid_or_conflicting_framing_is_refused_and_closed() {
    let pair = Pair::start().await;
    for path in [ORDINARY, CHAT] {
        for fields in [
            "Content-Length: 4\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nX: y\r\nContent-Length: 4\r\n",
            "Content-Length: 4, 5\r\n",
            "Content-Length: +4\r\n",
            "Content-Length: -4\r\n",
            "Content-Length: 0x4\r\n",
            "Content-Length: 4 4\r\n",
            "Content-Length: 4a\r\n",
            "Content-Length: \r\n",
            "Content-Length: 18446744073709551620\r\n",
            "Content-Length : 4\r\n",
            " Content-Length: 4\r\n",
            "Content-Length\u{b}: 4\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding: \u{b}chunked\r\n",
            "Content-Length: 4\r\nTransfer-Encoding: identity\r\n",
        ] {
            pair.refuses(request("POST", path, fields, &format!("body{SMUGGLED}")), 400).await;
        }
        for fields in [
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: identity, chunked\r\n",
            "Transfer-Encoding: ,chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer_Encoding: chunked\r\n",
            "Content-Length: 4\r\nTransfer_Encoding: chunked\r\n",
        ] {
            let ask = request("POST", path, fields, &format!("0\r\n\r\n{SMUGGLED}"));
            pair.refuses(&ask, 400).await;
            let reply = pair.heard(&ask).await;
            assert!(reply.contains("x-longhaul-fault: transfer_coding\r\n"), "{fields}: {reply}");
        }
        let old = format!("POST {path} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        pair.refuses(old, 400).await;
    }
    pair.still_serves().await;
}

/// RFC 9112, 6.1: `Transfer-Encoding` overrides `Content-Length`, and the connection closes after
/// the reply.
#[tokio::test]
async fn content_length_beside_chunked_is_dropped_and_the_connection_closed() {
    let pair = Pair::start().await;
    let orders = [
        "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 7\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: nonsense\r\n",
        "Content-Length: 7\r\ntransfer-encoding: CHUNKED\r\nContent-Length: 7\r\n",
    ];
    for (path, body) in [(ORDINARY, "\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), (CHAT, "\r\n\r\n{}")] {
        for fields in orders {
            let mut client = pair.connect().await;
            let rest = format!("2\r\n{{}}\r\n0\r\n\r\n{SMUGGLED}");
            client.send(&request("POST", path, fields, &rest)).await;
            let mut server = pair.upstream.accept().await;
            let heard = server.until(body).await.to_ascii_lowercase();
            let lengths = heard.matches("content-length:").count();
            let chunked = heard.matches("transfer-encoding: chunked\r\n").count();
            assert_eq!((lengths, chunked), if path == CHAT { (1, 0) } else { (0, 1) });
            assert!(path != CHAT || heard.contains("content-length: 2\r\n"), "{heard}");
            server.send(OK).await;
            let reply = client.rest().await;
            assert!(reply.ends_with("\r\n\r\nok"), "{reply}");
            assert_eq!(reply.matches("HTTP/1.1 ").count(), 1, "{reply}");
        }
    }
    pair.still_serves().await;
}

#[tokio::test]
async fn malformed_chunk_is_refused_and_closed() {
    let pair = Pair::start().await;
    let chunked = "Transfer-Encoding: chunked\r\n";
    for chunks in [
        "x\r\n",
        "-1\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
        "2 2\r\n{}\r\n0\r\n\r\n",
        "ffffffffffffffff1\r\n{}",
        "2\r{}\r\n0\r\n\r\n",
        "2\n{}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "2;\n\r\n{}\r\n0\r\n\r\n",
    ] {
        let rest = format!("{chunks}{SMUGGLED}");
        pair.refuses(request("POST", CHAT, chunked, &rest), 400).await;
    }
    // Chunk extensions are skipped, up to a limit.
    let extended = format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(1 << 20));
    pair.refuses(request("POST", CHAT, chunked, &extended), 400).await;
    pair.still_serves().await;
}
