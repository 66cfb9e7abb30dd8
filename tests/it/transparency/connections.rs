//! The life cycle of connections: reuse, pipelining, closing, versions, TLS.

use super::case::Case;
use super::message::Kind;
use super::{CHAT, OK, ORDINARY, on_both_paths, post, request};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = reuse();
    cases.extend(closing());
    cases.extend(pool());
    cases.extend(tls());
    cases
}

fn reuse() -> Vec<Case> {
    vec![
        Case::scripted("one connection carries many requests", &[], |x| {
            Box::pin(async move {
                for (path, body) in [(ORDINARY, "1"), (CHAT, "22"), (CHAT, ""), (ORDINARY, "4444")]
                {
                    x.passes(post(path, body), OK).await;
                }
                x.passes(request("GET", "/v1/models", "", ""), OK).await;
                x.passes(
                    request("HEAD", "/v1/models", "", ""),
                    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
                )
                .await;
                x.passes(
                    post(CHAT, "{}"),
                    "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}",
                )
                .await;
            })
        }),
        Case::scripted("pipelined requests are answered in their order", &[], |x| {
            Box::pin(async move {
                x.client.says(request("GET", "/v1/models/a", "", "")).await;
                x.client.says(post(CHAT, "{}")).await;
                for reply in ["one", "two"] {
                    x.upstream.sees_request().await;
                    x.upstream
                        .says(format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{reply}"))
                        .await;
                    x.client.sees(reply).await;
                }
            })
        }),
    ]
}

fn closing() -> Vec<Case> {
    let mut cases = on_both_paths(|path| {
        Case::scripted(
            "a client that asks to close is closed after its reply",
            &["hop-by-hop"],
            move |x| {
                Box::pin(async move {
                    let fields = "Connection: close\r\nContent-Length: 2\r\n";
                    x.client.says(request("POST", path, fields, "{}")).await;
                    x.upstream.sees_request().await;
                    x.upstream
                        .says("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
                        .await;
                    x.upstream.closes();
                    x.client.sees("ok").await;
                    x.client.sees_end().await;
                })
            },
        )
    });
    cases.extend(on_both_paths(|path| {
        Case::scripted(
            "upstream may close its connection and the client keeps its own",
            &["hop-by-hop"],
            move |x| {
                Box::pin(async move {
                    x.client.says(post(path, "{}")).await;
                    x.upstream.sees_request().await;
                    x.upstream
                        .says("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
                        .await;
                    x.upstream.closes();
                    x.client.sees("ok").await;
                })
            },
        )
    }));
    cases.extend(on_both_paths(|path| {
        Case::scripted("a client in HTTP/1.0 gets its reply and the end", &["version", "hop-by-hop"], move |x| {
            Box::pin(async move {
                x.client.says(format!("POST {path} HTTP/1.0\r\nHost: {{host}}\r\nContent-Length: 2\r\n\r\n{{}}")).await;
                x.upstream.sees_request().await;
                x.upstream.says("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").await;
                x.upstream.closes();
                x.client.sees("ok").await;
                x.client.sees_end().await;
            })
        })
    }));
    cases
}

/// Connections that longhaul keeps for reuse. Without longhaul a client has to open a new one.
fn pool() -> Vec<Case> {
    let mut cases = on_both_paths(|path| {
        Case::scripted(
            "a connection that upstream closed while idle costs no request",
            &[],
            move |x| {
                Box::pin(async move {
                    for _ in 0..3 {
                        x.passes(post(path, "{}"), OK).await;
                        x.upstream.peer().stops_sending().await;
                        // Once the proxy notices, it closes its side, too.
                        if x.is_proxied() {
                            x.upstream.peer().sees_end().await;
                        }
                        x.upstream.closes();
                        x.client_connects_again().await;
                    }
                    x.passes(post(path, "{}"), OK).await;
                    x.upstream.sees_nobody_else().await;
                })
            },
        )
    });
    cases.extend(on_both_paths(|path| {
        Case::scripted(
            "a request that upstream has read is never sent again",
            &["no reply"],
            move |x| {
                Box::pin(async move {
                    x.passes(post(path, "{}"), OK).await;
                    x.client.says(post(path, "{ }")).await;
                    x.upstream.sees_request().await;
                    x.upstream.closes();
                    if x.is_proxied() {
                        x.client.sees_message(Kind::Reply).await;
                    } else {
                        x.client.sees_end().await;
                    }
                    x.upstream.sees_nobody_else().await;
                })
            },
        )
    }));
    cases
}

fn tls() -> Vec<Case> {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n002\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n";
    [ORDINARY, CHAT]
        .into_iter()
        .flat_map(|path| {
            let fields = "X-b: 1\r\nTE: trailers\r\nx-A: 2\r\nContent-Length: 4\r\n";
            let request = request("POST", &format!("{path}?a=%20//"), fields, "{ }\n");
            [
                Case::plain("an exchange by length", &[], request.clone(), OK),
                Case::plain(
                    "an exchange in chunks",
                    &["chunk sizes", "trailer names"],
                    request,
                    chunked,
                ),
            ]
            .map(|case| case.on(path).over_tls())
        })
        .collect()
}
