//! A client that leaves: the upstream request ends with it, at any stage.

use super::case::Case;
use super::exchange::Exchange;
use super::{ORDINARY, on_both_paths, post, request};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = on_both_paths(|path| {
        Case::scripted("a client that leaves before the first byte of its reply", &[], move |x| {
            Box::pin(async move {
                asks(x, path).await;
                x.client.leaves();
                x.upstream.peer().sees_end().await;
                x.upstream.sees_nobody_else().await;
            })
        })
    });
    cases.extend(on_both_paths(|path| {
        Case::scripted("a client that resets before the first byte of its reply", &[], move |x| {
            Box::pin(async move {
                asks(x, path).await;
                x.client.resets();
                x.upstream.peer().sees_end().await;
            })
        })
    }));
    cases.extend(downloads());
    cases.extend(uploads());
    cases
}

/// A client that leaves before its reply is whole.
fn downloads() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(on_both_paths(|path| {
        Case::scripted("a client that leaves between two events", &[], move |x| {
            Box::pin(async move {
                asks(x, path).await;
                let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n";
                x.upstream.says(format!("{head}{event}")).await;
                x.client.sees(event).await;
                x.client.leaves();
                x.upstream.peer().sees_end().await;
            })
        })
    }));
    cases.extend(on_both_paths(|path| {
        Case::scripted("a client that leaves while its reply flows", &[], move |x| {
            Box::pin(async move {
                asks(x, path).await;
                x.upstream.says("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nfirst").await;
                x.client.sees("first").await;
                x.client.leaves();
                // Sent until the peer stops reading, which must happen.
                x.upstream.peer().tries_to_send(&vec![b'x'; 50_000_000]).await;
                x.upstream.peer().sees_end().await;
            })
        })
    }));
    cases
}

/// A client that leaves before its request is whole.
fn uploads() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.push(Case::scripted("a client that leaves while it uploads by length", &[], |x| {
        Box::pin(async move {
            x.client.says(request("POST", ORDINARY, "Content-Length: 9999\r\n", "first")).await;
            x.upstream.sees("first").await;
            x.client.leaves();
            x.upstream.peer().sees_end().await;
        })
    }));
    cases.push(Case::scripted(
        "a client that leaves while it uploads in chunks",
        &["chunk sizes"],
        |x| {
            Box::pin(async move {
                let fields = "Transfer-Encoding: chunked\r\n";
                x.client.says(request("POST", ORDINARY, fields, "5\r\nfirst\r\n")).await;
                x.upstream.sees("first").await;
                x.client.leaves();
                x.upstream.peer().sees_end().await;
            })
        },
    ));
    cases
}

/// Sends a request and waits until the upstream has read it whole.
async fn asks(x: &mut Exchange, path: &str) {
    x.client.says(post(path, "{\"stream\":true}")).await;
    x.upstream.sees_request().await;
}
