//! Decompression bombs: small bodies that inflate to large ones.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{CHAT, OK, Pair};

/// Inflated size of a bomb's body, in bytes.
const INFLATED: usize = 128 << 20;
/// Limit on the growth of resident memory, in bytes: 200 times the received size, doubled while a
/// buffer grows, plus room for the process itself.
const ROOM: usize = 80 << 20;

fn gzip(layers: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for layer in 0..layers {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        if layer == 0 {
            let piece = vec![b' '; 1 << 20];
            for _ in 0..INFLATED >> 20 {
                encoder.write_all(&piece).unwrap();
            }
        } else {
            encoder.write_all(&bytes).unwrap();
        }
        bytes = encoder.finish().unwrap();
    }
    bytes
}

/// A request body that inflates without end is forwarded unchanged and inflated only up to the
/// bound.
#[tokio::test]
async fn endlessly_inflating_chat_is_forwarded_unread() {
    let pair = Pair::start().await;
    let before = pair.peak();
    for (coding, layers) in [("gzip", 1), ("gzip, gzip", 2)] {
        let bomb = gzip(layers);
        let mut client = pair.connect().await;
        let length = bomb.len();
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: {coding}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        let send = async {
            client.send(&head).await;
            client.send_bytes(&bomb).await;
        };
        let take = async {
            let mut server = pair.upstream.accept().await;
            server.until("\r\n\r\n").await;
            let came = server.exactly(length).await;
            assert!(came == bomb, "{coding}: the bytes have changed");
            server
        };
        let ((), mut server) = tokio::join!(send, take);
        server.send(OK).await;
        assert!(client.rest().await.ends_with("ok"), "{coding}");
    }
    let grown = pair.peak() - before;
    assert!(grown < ROOM, "{} MiB of {}", grown >> 20, INFLATED >> 20);
    pair.still_serves().await;
}
