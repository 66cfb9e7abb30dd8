//! Replies: status lines, framing, bodies, trailers.

use super::case::Case;
use super::{CHAT, ORDINARY, on_both_paths, post, request};

/// Builds cases of a single reply, on both paths.
fn answered(name: &str, allows: &'static [&'static str], reply: impl AsRef<[u8]>) -> Vec<Case> {
    on_both_paths(|path| Case::plain(name, allows, post(path, "{}"), reply.as_ref()))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = statuses();
    cases.extend(trailers());
    cases.extend(framing());
    cases.extend(closing());
    cases.extend(errors());
    cases.extend(bodiless());
    cases
}

fn statuses() -> Vec<Case> {
    let lines = [
        "HTTP/1.1 200 Fine By Me",
        "HTTP/1.1 200 ",
        "HTTP/1.1 200 ok",
        "HTTP/1.1 201 Created",
        "HTTP/1.1 299 Odd",
        "HTTP/1.1 299 ",
        "HTTP/1.1 302 Found",
        "HTTP/1.1 404 Not Found",
        "HTTP/1.1 418 I'm a teapot",
        "HTTP/1.1 429 Too Many Requests",
        "HTTP/1.1 500 Internal Server Error",
        "HTTP/1.1 529 Overloaded",
        "HTTP/1.1 599 ",
        "HTTP/1.1 999 Beyond",
    ];
    let cases = lines.map(|line| {
        let reply = format!("{line}\r\nContent-Length: 2\r\n\r\nno");
        answered(&format!("the status line {line:?} passes"), &[], reply)
    });
    let mut cases: Vec<_> = cases.into_iter().flatten().collect();
    let accented = "HTTP/1.1 503 Caf\u{e9}\r\nContent-Length: 2\r\n\r\nno";
    cases.extend(answered("a reason beyond ASCII is left out", &["reason phrase"], accented));
    cases
}

fn framing() -> Vec<Case> {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
    let cases = [
        answered(
            "a reply by length passes",
            &[],
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        ),
        answered("an empty reply passes", &[], "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        answered(
            "a chunked reply stays chunked",
            &["chunk sizes"],
            format!("{chunked}\r\n5\r\nhello\r\n0\r\n\r\n"),
        ),
        answered("an empty chunked reply stays chunked", &[], format!("{chunked}\r\n0\r\n\r\n")),
        answered(
            "the codings of a chunked reply pass",
            &["chunk sizes"],
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n\x1f\x0b\r\n0\r\n\r\n",
        ),
        answered(
            "a length before the coding of a chunked reply",
            &["chunk sizes", "length beside chunks"],
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ),
        answered(
            "a length that is none behind the coding of a chunked reply",
            &["chunk sizes", "length beside chunks"],
            format!("{chunked}Content-Length: 5 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        ),
        answered(
            "chunk extensions of a reply go",
            &["chunk sizes"],
            format!("{chunked}\r\n5;a=\"b\"\r\nhello\r\n0\r\n\r\n"),
        ),
        answered(
            "bytes of every value pass",
            &[],
            [
                b"HTTP/1.1 200 OK\r\nContent-Length: 256\r\n\r\n".as_slice(),
                &(0..=255).collect::<Vec<u8>>(),
            ]
            .concat(),
        ),
        answered(
            "bytes that are not what their encoding says pass",
            &[],
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        ),
    ];
    cases.into_iter().flatten().collect()
}

/// Replies that end, or could end, with their connection.
fn closing() -> Vec<Case> {
    let cases = [
        on_both_paths(|path| ended("a reply that its connection ends", path, "")),
        on_both_paths(|path| {
            let fields = "Transfer-Encoding: identity\r\n";
            ended("a reply in no coding that its connection ends", path, fields)
        }),
        on_both_paths(|path| {
            Case::scripted("a reply in HTTP/1.0", &["version", "hop-by-hop"], move |x| {
                Box::pin(async move {
                    x.client.says(post(path, "{}")).await;
                    x.upstream.sees_request().await;
                    x.upstream
                        .says("HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
                        .await;
                    x.upstream.closes();
                    x.client.sees("ok").await;
                })
            })
        }),
    ];
    cases.into_iter().flatten().collect()
}

/// Builds a case of a reply with these fields that ends with its connection.
fn ended(name: &str, path: &'static str, fields: &'static str) -> Case {
    Case::scripted(name, &["end of connection"], move |x| {
        Box::pin(async move {
            x.client.says(post(path, "{}")).await;
            x.upstream.sees_request().await;
            let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Type: text/plain\r\n\r\n");
            x.upstream.says(format!("{head}first")).await;
            x.client.sees("first").await;
            x.upstream.says("last").await;
            x.client.sees("last").await;
            x.upstream.closes();
        })
    })
}

/// Trailers of a reply: to a client that asked for them, and to one that did not.
fn trailers() -> Vec<Case> {
    let announced = "Trailer: X-Sum, Server-Timing\r\n";
    let cases = [
        ("TE: trailers\r\n", announced, "trailers pass", &["chunk sizes", "trailer names"]),
        ("", announced, "trailers nobody asked for", &["chunk sizes", "unasked trailers"]),
        ("TE: trailers\r\n", "", "trailers not announced", &["chunk sizes", "unasked trailers"]),
    ];
    let cases = cases.map(|(asks, announces, name, allows)| {
        on_both_paths(|path| {
            let fields = format!("{asks}Content-Length: 2\r\n");
            let reply = format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{announces}\r\n\
                 2\r\nok\r\n0\r\nX-Sum: 1\r\nServer-Timing: a\r\n\r\n"
            );
            Case::plain(name, allows, request("POST", path, &fields, "{}"), reply)
        })
    });
    cases.into_iter().flatten().collect()
}

/// Errors that longhaul may inspect on the chat path; none is an overflow.
fn errors() -> Vec<Case> {
    let bodies = [
        (
            401,
            "{ \"error\": {\"message\":\"bad key\" , \"type\":\"x\",\"code\":\"invalid_api_key\"}}",
        ),
        (400, "{\"error\":{\"message\":\"messages[0].content is missing\"}}\n"),
        (400, "not json"),
        (400, ""),
        (413, "<html>413 Request Entity Too Large</html>"),
        (422, "{\"detail\":[{\"loc\":[\"body\"]}]}"),
        (429, "{\"error\":{\"message\":\"Rate limit reached for tokens per minute\"}}"),
        (500, "{\"error\":\"boom\"}"),
        (502, "bad gateway"),
    ];
    let cases = bodies.map(|(status, body)| {
        let length = body.len();
        let reply = format!("HTTP/1.1 {status} No\r\ncontent-type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        answered(&format!("the error {status} {body:?} passes"), &[], reply)
    });
    let big = "x".repeat(100_000);
    let big = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: 100000\r\n\r\n{big}");
    let mut cases: Vec<_> = cases.into_iter().flatten().collect();
    cases.extend(answered("an error of 100 kB passes", &[], big));
    cases.extend(answered(
        "a chunked error stays chunked",
        &["chunk sizes"],
        "HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n002\r\n{}\r\n0\r\n\r\n",
    ));
    cases
}

fn bodiless() -> Vec<Case> {
    let mut cases: Vec<_> = [
        "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
    ]
    .into_iter()
    .flat_map(|reply| answered(&format!("{reply:?} passes"), &[], reply))
    .collect();
    let heads = [
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 30\r\n\r\n",
    ];
    for path in [ORDINARY, CHAT] {
        for reply in heads {
            let name = format!("to a HEAD of {path}, {reply:?} passes");
            cases.push(Case::plain(&name, &[], request("HEAD", path, "", ""), reply));
        }
    }
    let not_modified = "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n";
    cases.extend(answered("the length of a 304", &["framing of nothing"], not_modified));
    cases.push(Case::plain(
        "the framing of a reply to HEAD",
        &["framing of nothing"],
        request("HEAD", CHAT, "", ""),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ));
    cases
}
