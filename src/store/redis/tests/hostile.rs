//! Tests of the store against a server that sends more than any reply may take.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

/// More than the replies to a call may take, with what the sockets of both ends hold.
const MOST_SENT: usize = 96 << 20;

/// Starts a server that answers whatever it receives with `start`, and `rest` without an end. Returns its
/// address, and the bytes that each of its connections took before it ended.
async fn server(start: String, rest: String) -> (String, mpsc::UnboundedReceiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, ended) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (start, rest, tell) =
                (start.clone(), rest.repeat((64 << 10) / rest.len()), tell.clone());
            tokio::spawn(async move {
                let mut sent = start.len();
                let mut command = [0; 1024];
                _ = socket.read(&mut command).await;
                let mut written = socket.write_all(start.as_bytes()).await;
                while written.is_ok() && sent < 2 * MOST_SENT {
                    written = socket.write_all(rest.as_bytes()).await;
                    sent += rest.len();
                }
                _ = tell.send(sent);
            });
        }
    });
    (address.to_string(), ended)
}

async fn check(protocol: &str, start: &str, rest: &str) {
    let (address, mut ended) = server(start.to_owned(), rest.to_owned()).await;
    let tier = tier(&format!("redis://{address}/?protocol={protocol}"), &[]);
    let read = tier.read(&[key(1, "a")]).await;
    assert!(read.is_err(), "{start:?}");
    let sent = tokio::time::timeout(PATIENCE, ended.recv()).await;
    let sent = sent.unwrap().unwrap();
    assert!(sent < MOST_SENT, "{start:?} {rest:?}: {sent} bytes");
}

#[tokio::test]
async fn a_reply_beyond_its_bound_ends_the_connection() {
    for (protocol, start, rest) in [
        ("resp2", "*2\r\n$6\r\nrecord\r\n$400000000\r\n", "x"),
        ("resp2", "*100000000\r\n", ":1\r\n"),
        ("resp2", "", "*1\r\n"),
        ("resp2", "-ERR ", "x"),
        ("resp3", "=400000000\r\ntxt:", "x"),
        ("resp3", "%100000000\r\n", "+k\r\n:1\r\n"),
        ("resp3", ">100000000\r\n+message\r\n", "+x\r\n"),
        ("resp3", "", "|1\r\n+k\r\n"),
    ] {
        check(protocol, start, rest).await;
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_that_sends_too_much_is_left() {
    let (address, mut ended) = server("*400000000\r\n".to_owned(), ":1\r\n".to_owned()).await;
    let tier = tier(&format!("redis+cluster://{address}"), &[]);
    assert!(tier.read(&[key(1, "a")]).await.is_err());
    let sent = tokio::time::timeout(PATIENCE, ended.recv()).await;
    assert!(sent.unwrap().unwrap() < MOST_SENT);
}
