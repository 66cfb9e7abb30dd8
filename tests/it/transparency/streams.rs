//! Streamed replies: every event reaches the client before the upstream sends the next.

use super::case::Case;
use super::{ORDINARY, on_both_paths, post};

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n";

const COMMENT: &[u8] = b": OPENROUTER PROCESSING\n\n";
const DELTA: &[u8] = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Builds cases of a stream; each part is sent after the client has received the previous one.
fn streamed(name: &str, parts: &'static [&'static [u8]]) -> Vec<Case> {
    on_both_paths(|path| {
        Case::scripted(name, &["chunk sizes"], move |x| {
            Box::pin(async move {
                x.client
                    .says(post(path, "{\"model\":\"m\",\"messages\":[],\"stream\":true}"))
                    .await;
                x.upstream.sees_request().await;
                x.upstream.says(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n")).await;
                for part in parts {
                    x.upstream.peer().sends(&chunk(part)).await;
                    x.client.sees(part).await;
                }
                x.upstream.says("0\r\n\r\n").await;
                x.client.sees("0\r\n\r\n").await;
            })
        })
    })
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

pub(super) fn cases() -> Vec<Case> {
    let cases = [
        streamed("events go on one by one", &[
            b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}]}\n\n",
            b"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n",
            b": OPENROUTER PROCESSING\n\n",
            b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n",
            b"data: [DONE]\n\n",
        ]),
        streamed("several events in one piece stay together", &[
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\ndata: [DONE]\n\n",
        ]),
        streamed("every line ending passes", &[
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
            b"data: {\"b\":1}\r\r",
            b"data: {\"c\":1}\n\n",
            b"data: [DONE]\r\n\n",
        ]),
        streamed("a byte order mark, fields and odd lines pass", &[
            b"\xef\xbb\xbfdata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
            b"event: x\nid: 1\nretry: 5\ndata:no space\ndata: two\n\n",
            b"nonsense\n:\n\n\n\n",
            b"data\n\n",
        ]),
        streamed("a character cut in two passes", &[
            b"data: {\"choices\":[{\"delta\":{\"content\":\"\xf0\x9f",
            b"\x91\x8b\"}}]}\n\n",
            b"data: [DONE]\n\n",
        ]),
        streamed("an event cut anywhere goes on at once after the first content", &[
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
            b"da", b"ta: {\"x\"", b":1}\n", b"\n", b"data: [DO", b"NE]", b"\n\n",
        ]),
        streamed("bytes that are no UTF-8 pass", &[b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n", b"data: \xfe\xff\n\n"]),
        streamed("a stream without [DONE] passes", &[b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"]),
        streamed("an error that comes later in a stream passes", &[
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
            b"data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n",
        ]),
        at_its_end(),
        by_length(),
        comments_of_an_ordinary_stream(),
        comments_before_the_first_event(),
    ];
    cases.into_iter().flatten().collect()
}

/// Comments pass at once on a path where nothing is held back.
fn comments_of_an_ordinary_stream() -> Vec<Case> {
    vec![Case::scripted("comments go on one by one", &["chunk sizes"], |x| {
        Box::pin(async move {
            x.client.says(post(ORDINARY, "{}")).await;
            x.upstream.sees_request().await;
            x.upstream.says(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n")).await;
            x.client.sees("\r\n\r\n").await;
            for _ in 0..3 {
                x.upstream.peer().sends(&chunk(COMMENT)).await;
                x.client.sees(COMMENT).await;
            }
            x.upstream.says("0\r\n\r\n").await;
            x.client.sees("0\r\n\r\n").await;
        })
    })]
}

/// The head of a chat stream may be held until the first event; no byte is lost.
fn comments_before_the_first_event() -> Vec<Case> {
    on_both_paths(|path| {
        Case::scripted("comments before the first event pass", &["chunk sizes"], move |x| {
            Box::pin(async move {
                x.client.says(post(path, "{}")).await;
                x.upstream.sees_request().await;
                x.upstream.says(format!("{STREAM}Transfer-Encoding: chunked\r\n\r\n")).await;
                x.upstream.peer().sends(&chunk(COMMENT)).await;
                x.upstream.peer().sends(&chunk(b": \n")).await;
                x.upstream.peer().sends(&chunk(DELTA)).await;
                x.client.sees(DELTA).await;
                x.upstream.says("0\r\n\r\n").await;
                x.client.sees("0\r\n\r\n").await;
            })
        })
    })
}

/// A stream with neither length nor chunks.
fn at_its_end() -> Vec<Case> {
    on_both_paths(|path| {
        Case::scripted("a stream that its connection ends", &["end of connection"], move |x| {
            Box::pin(async move {
                x.client.says(post(path, "{}")).await;
                x.upstream.sees_request().await;
                x.upstream.says(format!("{STREAM}\r\n")).await;
                for part in [DELTA, DELTA, DONE] {
                    x.upstream.says(part).await;
                    x.client.sees(part).await;
                }
                x.upstream.closes();
            })
        })
    })
}

/// A stream with a `Content-Length`.
fn by_length() -> Vec<Case> {
    on_both_paths(|path| {
        Case::scripted("a stream by length goes on as it comes", &[], move |x| {
            Box::pin(async move {
                x.client.says(post(path, "{}")).await;
                x.upstream.sees_request().await;
                let length = DELTA.len() + DONE.len();
                x.upstream.says(format!("{STREAM}Content-Length: {length}\r\n\r\n")).await;
                for part in [DELTA, DONE] {
                    x.upstream.says(part).await;
                    x.client.sees(part).await;
                }
            })
        })
    })
}
