//! Header fields of requests and replies.

use super::case::Case;
use super::{OK, on_both_paths, request};

/// Builds cases of a POST with `fields`.
fn asked(name: &str, allows: &'static [&'static str], fields: &str) -> Vec<Case> {
    on_both_paths(|path| {
        let fields = format!("{fields}Content-Length: 2\r\n");
        Case::plain(name, allows, request("POST", path, &fields, "{}"), OK)
    })
}

/// Builds cases of a reply with `fields`.
fn answered(name: &str, allows: &'static [&'static str], fields: &[u8]) -> Vec<Case> {
    on_both_paths(|path| {
        let mut reply = b"HTTP/1.1 200 OK\r\n".to_vec();
        reply.extend_from_slice(fields);
        reply.extend_from_slice(b"Content-Length: 2\r\n\r\nok");
        Case::plain(name, allows, super::post(path, "{}"), reply)
    })
}

pub(super) fn cases() -> Vec<Case> {
    let long = format!("X-Long: {}\r\n", "v".repeat(60_000));
    let many: Vec<_> = (0..150).map(|count| format!("X-Field-{count}: {count}\r\n")).collect();
    let many = many.concat();
    let cases = [
        asked("nothing is added to a bare request", &[], ""),
        asked("names keep their case", &[], "AUTHORIZATION: Bearer k\r\nx-sTaInLeSs-Lang: py\r\nX-b: 1\r\n"),
        asked("names keep their order", &[], "B: 1\r\nA: 2\r\nC: 3\r\nUser-Agent: x\r\nAccept: */*\r\n"),
        asked("names of every permitted character pass", &[], "x!#$%&'*+-.^_`|~9: 1\r\n"),
        asked("equal names keep their order and case", &[], "X-A: 1\r\nx-a: 2\r\nX-A: 1\r\n"),
        asked("equal names that stand apart", &["equal names"], "X-A: 1\r\nX-B: 2\r\nX-A: 3\r\n"),
        asked("a list in one field stays one field", &[], "Accept: a, b,c ,d\r\nX-A: ,,\r\n"),
        asked("an empty value passes", &[], "X-Empty:\r\nX-After: 1\r\n"),
        asked("an empty value with a space", &["white space"], "X-Empty: \r\nX-After: 1\r\n"),
        asked("white space inside a value passes", &[], "X-A: a  b\t c\r\n"),
        asked("white space around a value", &["white space"], "X-A:1\r\nX-B:   2  \r\n"),
        asked("quotes and controls of a value pass", &[], "X-A: \"q\\\" ;=,\r\nCookie: a=b; c=\"d\"\r\n"),
        asked("values beyond ASCII pass", &[], "X-Name: Gr\u{fc}\u{df}e \u{1f44b}\r\n"),
        asked("a value of 60 kB passes", &[], &long),
        asked("150 fields pass", &[], &many),
        asked("forwarding fields pass and none is added", &[], "Via: 1.1 a\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=a\r\n"),
        asked("fields about the content pass", &[], "Accept-Encoding: gzip, br\r\nAccept: text/event-stream\r\nIdempotency-Key: 1\r\nOpenAI-Beta: a\r\n"),
        asked("our own fields stay here", &["own fields"], "X-Longhaul-Prune: off\r\nX-Longhaulage: 1\r\n"),
        asked("fields that Connection names stay here", &["hop-by-hop"], "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nKeep-Alive: timeout=5\r\n"),
        asked("Proxy-Connection stays here", &["hop-by-hop"], "Proxy-Connection: keep-alive\r\n"),
        asked("TE: trailers passes", &[], "TE: trailers\r\n"),
        asked("of TE only trailers passes", &["hop-by-hop"], "TE: gzip, trailers;q=0.5\r\nX-End: 2\r\n"),
        answered("names of a reply keep their case and order", &[], b"Server: x\r\nDATE: now\r\nx-reQuest-id: 1\r\nContent-Type: application/json\r\nAlt-Svc: h3\r\n"),
        answered("nothing is added to a bare reply", &[], b""),
        answered("each Set-Cookie stays its own", &[], b"Set-Cookie: a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT\r\nset-cookie: b=2\r\nSet-Cookie: a=3\r\n"),
        answered("equal names of a reply that stand apart", &["equal names"], b"Set-Cookie: a\r\nX: 1\r\nSet-Cookie: b\r\n"),
        answered("bytes beyond ASCII in a reply's values pass", &[], b"X-Latin: caf\xe9\r\nX-Raw: \x80\xff\r\n"),
        answered(
            "an empty value of a reply without a space",
            &["white space"],
            b"X-Empty:\r\nX-After: 1\r\n",
        ),
        answered("an empty value of a reply passes", &[], b"X-Empty: \r\nX-After: 1\r\n"),
        answered("rate limits and the request's id pass", &[], b"x-ratelimit-remaining-tokens: 1\r\nretry-after-ms: 20\r\nx-request-id: req_1\r\n"),
        answered("hop-by-hop fields of a reply stay here", &["hop-by-hop"], b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-End: 1\r\n"),
        answered("a reply's encoding passes", &[], b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"),
        answered("a long value of a reply passes", &[], long.as_bytes()),
    ];
    let mut cases: Vec<_> = cases.into_iter().flatten().collect();
    let latin = on_both_paths(|path| {
        let mut request = format!("POST {path} HTTP/1.1\r\nHost: {{host}}\r\nX-Raw: ").into_bytes();
        request.extend_from_slice(b"caf\xe9 \x80\xff\r\nContent-Length: 2\r\n\r\n{}");
        Case::plain("bytes beyond ASCII in a request's values pass", &[], request, OK)
    });
    let host = "GET /v1/models HTTP/1.1\r\nUser-Agent: x\r\nHost: elsewhere.example\r\nAccept: */*\r\n\r\n";
    cases.extend(latin);
    cases.push(Case::plain("a Host that is not longhaul's own", &["host"], host, OK));
    cases
}
