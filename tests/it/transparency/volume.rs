//! Large bodies pass whole, and a slow reader slows the sender down.

use super::case::Case;
use super::exchange::{Exchange, SOCKET_BUFFER};
use super::{ORDINARY, on_both_paths, post, request};
use std::fs;
use std::time::Duration;

/// Bytes that longhaul may buffer per stream, beyond the kernel's socket buffers.
const HELD_BYTES: usize = 8 << 20;

/// Time without progress after which a sender counts as held back. A longer pause of the machine
/// can only make the case pass too early, never fail.
const CALM: Duration = Duration::from_secs(1);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for megabytes in [1, 20] {
        cases.extend(on_both_paths(|path| {
            let name = format!("a request and a reply of {megabytes} MB pass");
            Case::scripted(&name, &[], move |x| {
                Box::pin(async move { both_ways(x, path, megabytes * 1_000_000).await })
            })
        }));
    }
    cases.extend(on_both_paths(|path| {
        Case::scripted("a client that does not read holds upstream back", &[], move |x| {
            Box::pin(async move {
                x.client.says(post(path, "{}")).await;
                x.upstream.sees_request().await;
                x.upstream
                    .says("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\nfirst")
                    .await;
                x.client.sees("first").await;
                let limit = bound();
                let sent = x.upstream.peer().sends_until_stalled(&PIECE, CALM, limit).await;
                assert!(sent < limit, "upstream got rid of {sent} bytes that nobody read");
                x.client.resets();
                x.upstream.closes();
            })
        })
    }));
    cases.push(Case::scripted("an upstream that does not read holds the client back", &[], |x| {
        Box::pin(async move {
            let fields = "Content-Length: 999999999999\r\n";
            x.client.says(request("POST", ORDINARY, fields, "first")).await;
            x.upstream.sees("first").await;
            let limit = bound();
            let sent = x.client.sends_until_stalled(&PIECE, CALM, limit).await;
            assert!(sent < limit, "the client got rid of {sent} bytes that nobody read");
            x.client.resets();
            x.upstream.closes();
        })
    }));
    cases
}

static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// Returns the number of bytes that two connections and longhaul may buffer.
fn bound() -> usize {
    let largest = |name: &str| -> usize {
        let sizes = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        let sizes = sizes.ok().and_then(|sizes| sizes.split_whitespace().last()?.parse().ok());
        // Linux's own default, if the file does not say.
        sizes.unwrap_or(6 << 20)
    };
    let own = usize::try_from(SOCKET_BUFFER).expect("a small number") * 4;
    largest("tcp_rmem") + largest("tcp_wmem") + own + HELD_BYTES
}

/// Generates bytes without a period that could hide a duplicated piece.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = move || {
        // Marsaglia's xorshift32.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(count).collect()
}

async fn both_ways(x: &mut Exchange, path: &str, count: usize) {
    let body = noise(count);
    let fields = format!("Content-Length: {count}\r\n");
    let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n");
    let Exchange { client, upstream, .. } = x;
    let upload = async {
        client.says(request("POST", path, &fields, "")).await;
        client.sends(&body).await;
    };
    let receive = async {
        upstream.sees("\r\n\r\n").await;
        upstream.peer().sees_bytes(count).await;
    };
    tokio::join!(upload, receive);
    let download = async {
        upstream.says(&reply).await;
        upstream.peer().sends(&body).await;
    };
    let take = async {
        client.sees("\r\n\r\n").await;
        client.sees_bytes(count).await;
    };
    tokio::join!(download, take);
}
