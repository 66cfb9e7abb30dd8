//! Request bodies and their framing.

use super::case::Case;
use super::{CHAT, OK, ORDINARY, on_both_paths, post, request};

/// Builds a case of a chat body that must arrive unchanged.
fn chat(name: &str, body: &[u8]) -> Case {
    Case::plain(name, &[], post(CHAT, body), OK)
}

/// Builds a chunked POST to `target`; `chunks` is everything after the head.
fn chunked(target: &str, fields: &str, chunks: &str) -> String {
    let fields = format!("{fields}Transfer-Encoding: chunked\r\nContent-Type: text/plain\r\n");
    request("POST", target, &fields, chunks)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = framing();
    cases.extend(chats());
    cases.extend(encoded());
    cases
}

fn framing() -> Vec<Case> {
    let unread = |name, allows, fields, chunks| {
        Case::plain(name, allows, chunked("/v1/files", fields, chunks), OK)
    };
    let mut cases = vec![
        unread(
            "a chunked request stays chunked",
            &["chunk sizes"],
            "",
            "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        ),
        unread("an empty chunked request stays chunked", &[], "", "0\r\n\r\n"),
        unread("chunk extensions go", &["chunk sizes"], "", "5;a=b\r\nhello\r\n0;c\r\n\r\n"),
        unread(
            "odd chunk sizes are read",
            &["chunk sizes"],
            "",
            "00A\r\n0123456789\r\n0000\r\n\r\n",
        ),
        unread(
            "request trailers pass",
            &["chunk sizes", "trailer names"],
            "Trailer: X-Sum\r\n",
            "2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n",
        ),
        unread(
            "request trailers that were not announced",
            &["chunk sizes", "unasked trailers"],
            "",
            "2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n",
        ),
        Case::plain(
            "a chunked chat goes on by length",
            &["chat framing"],
            chunked(CHAT, "", "3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n"),
            OK,
        ),
    ];
    cases.extend(in_pieces());
    cases.extend(methods());
    cases
}

/// Bodies that arrive in pieces.
fn in_pieces() -> Vec<Case> {
    vec![
        Case::scripted("a chunked body goes on chunk by chunk", &["chunk sizes"], |x| {
            Box::pin(async move {
                x.client.says(chunked("/v1/audio/transcriptions", "", "")).await;
                for word in ["one", "two!", "three"] {
                    x.client.says(format!("{:x}\r\n{word}\r\n", word.len())).await;
                    x.upstream.sees(word).await;
                }
                x.client.says("0\r\n\r\n").await;
                x.upstream.sees("0\r\n\r\n").await;
                x.upstream.says(OK).await;
                x.client.sees("ok").await;
            })
        }),
        Case::scripted("a body by length goes on as it comes", &[], |x| {
            Box::pin(async move {
                x.client.says(request("POST", ORDINARY, "Content-Length: 8\r\n", "")).await;
                for word in ["half", "rest"] {
                    x.client.says(word).await;
                    x.upstream.sees(word).await;
                }
                x.upstream.says(OK).await;
                x.client.sees("ok").await;
            })
        }),
        Case::scripted("a chat body that comes byte by byte arrives whole", &[], |x| {
            Box::pin(async move {
                x.client.says_slowly(post(CHAT, "{ \"model\" : \"m\" }")).await;
                x.upstream.sees_request().await;
                x.upstream.says(OK).await;
                x.client.sees("ok").await;
            })
        }),
    ]
}

/// Requests with and without bodies, by method.
fn methods() -> Vec<Case> {
    let mut cases = Vec::new();
    for method in ["GET", "POST", "DELETE"] {
        for (name, fields) in
            [("no body stays none", ""), ("a length of zero stays", "Content-Length: 0\r\n")]
        {
            cases.extend(on_both_paths(|path| {
                Case::plain(
                    &format!("{method}: {name}"),
                    &[],
                    request(method, path, fields, ""),
                    OK,
                )
            }));
        }
        cases.push(Case::plain(
            &format!("{method}: a body passes"),
            &[],
            request(method, "/v1/threads/1", "Content-Length: 7\r\n", "{\"a\":1}"),
            OK,
        ));
    }
    cases
}

fn chats() -> Vec<Case> {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut cases = vec![
        chat("odd spacing in a chat stays", b" {\"model\" :\t\"m\" ,\r\n \"messages\":[ ]\n}\n\n"),
        chat("key order and unknown keys stay", br#"{"z":1,"messages":[{"x_y":{},"content":"a","role":"user"}],"a":{"b":[]},"model":"m"}"#),
        chat("duplicate keys stay", br#"{"model":"a","model":"b","messages":[],"messages":[{"role":"user","content":"x"}]}"#),
        chat("numbers keep their digits", br#"{"model":"m","messages":[],"seed":123456789012345678901234567890,"temperature":1.0,"top_p":1E-0,"a":-0.0,"b":0.10}"#),
        chat("escapes stay as written", br#"{"model":"m","messages":[{"role":"user","content":"\u00e9\/\ud83d\udc4b\u0000\ud800 \u007f"}]}"#),
        chat("characters beyond ASCII stay", "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"é漢👋\u{2028}\u{0}\"}]}".as_bytes()),
        chat("a byte order mark stays", b"\xef\xbb\xbf{\"model\":\"m\",\"messages\":[]}"),
        chat("bytes that are no UTF-8 stay", b"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\xc3\"}]}"),
        chat("what is no JSON stays", b"{\"model\": nope"),
        chat("JSON that is no object stays", b"[1,2]"),
        chat("bytes behind the JSON stay", b"{\"model\":\"m\",\"messages\":[]} {}garbage"),
        chat("messages of odd types stay", br#"{"model":1,"messages":{"role":[]},"tools":"x","stream":"yes"}"#),
        chat("null, empty and missing content stay", br#"{"model":"m","messages":[{"role":"user","content":null},{"role":"user","content":""},{"role":"user"},null]}"#),
        chat("a call whose result is missing stays", br#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{"}}]},{"role":"tool","tool_call_id":"2","content":"b"}]}"#),
        chat("binary bytes stay", &(0..=255).cycle().take(10_000).collect::<Vec<u8>>()),
        chat("very deep JSON stays", deep.as_bytes()),
    ];
    let plain_text = "Content-Type: text/plain\r\nContent-Length: 30\r\n";
    let body = "{\"model\":\"m\",  \"messages\":[]}\n";
    cases.push(Case::plain(
        "a chat of another content type stays",
        &[],
        request("POST", CHAT, plain_text, body),
        OK,
    ));
    cases
}

fn encoded() -> Vec<Case> {
    let multipart = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\r\n\x00\xff\"\r\n\r\n\x89PNG\r\n\x1a\n\r\n--b--\r\n";
    // Content declared as gzip or zstd; its validity makes no difference on the wire.
    let gzip: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0";
    let zstd: &[u8] = b"\x28\xb5\x2f\xfd\x04\x00\x11\x00\x00{}\x6d\x3e\x5d\x4b";
    let with = |path: &str, fields: &str, body: &[u8]| {
        let fields = format!("{fields}\r\nContent-Length: {}\r\n", body.len());
        [request("POST", path, &fields, "").as_bytes(), body].concat()
    };
    let form = "Content-Type: multipart/form-data; boundary=b";
    let mut cases =
        vec![Case::plain("a multipart upload passes", &[], with("/v1/files", form, multipart), OK)];
    for (name, body) in [("gzip", gzip), ("zstd", zstd), ("gzip", b"not gzip"), ("br", b"\x0b")] {
        cases.extend(on_both_paths(|path| {
            let request = with(path, &format!("Content-Encoding: {name}"), body);
            Case::plain(
                &format!("a body in {name} of {} bytes passes", body.len()),
                &[],
                request,
                OK,
            )
        }));
    }
    cases
}
