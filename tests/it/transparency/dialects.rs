//! The Responses and the Messages API: bodies, replies and streams that longhaul reads and leaves alone.

use super::case::Case;
use super::{OK, post, request};

/// Paths whose bodies longhaul reads, in addition to chat completions: the chats of both APIs, also in the forms of
/// clouds, and the counts of tokens.
const PATHS: [&str; 6] = [
    RESPONSES,
    MESSAGES,
    "/v1/messages/count_tokens",
    GOOGLE,
    INVOKE,
    "/v1/projects/p/locations/global/publishers/anthropic/models/count-tokens:rawPredict",
];
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
const GOOGLE: &str =
    "/v1/projects/p/locations/global/publishers/anthropic/models/m@20251001:streamRawPredict";
const INVOKE: &str = "/model/us.anthropic.m-v1%3A0/invoke-with-response-stream";

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in PATHS {
        cases.extend(any_body(path));
        cases.extend(encoded(path));
    }
    cases.extend(responses_bodies());
    cases.extend(messages_bodies());
    for path in [RESPONSES, MESSAGES, GOOGLE, INVOKE] {
        cases.extend(errors(path));
    }
    cases.extend(frames());
    cases.extend(answers());
    cases.extend(responses_streams());
    cases.extend(messages_streams());
    cases
}

/// Builds a case of a body that must arrive unchanged.
fn body(path: &'static str, name: &str, body: &[u8]) -> Case {
    Case::plain(name, &[], post(path, body), OK).on(path)
}

/// Bodies that are not a request of either API.
fn any_body(path: &'static str) -> Vec<Case> {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let binary: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let plain_text = "Content-Type: text/plain\r\nContent-Length: 18\r\n";
    vec![
        body(path, "an empty object stays", b"{}"),
        body(path, "what is no JSON stays", b"{\"model\": nope"),
        body(path, "JSON that is no object stays", b"[1,2]"),
        body(path, "a byte order mark stays", b"\xef\xbb\xbf{\"input\":[],\"messages\":[]}"),
        body(
            path,
            "bytes that are no UTF-8 stay",
            b"{\"input\":\"\xff\xfe\",\"messages\":[{\"role\":\"user\",\"content\":\"\xc3\"}]}",
        ),
        body(path, "bytes behind the JSON stay", b"{\"input\":\"a\",\"messages\":[]} {}garbage"),
        body(path, "binary bytes stay", &binary),
        body(path, "very deep JSON stays", deep.as_bytes()),
        Case::plain(
            "a body of another content type stays",
            &[],
            request("POST", path, plain_text, "{\"input\":  \"a\" } \n"),
            OK,
        )
        .on(path),
        Case::plain("a request without a body stays one", &[], request("GET", path, "", ""), OK)
            .on(path),
    ]
}

fn encoded(path: &'static str) -> Vec<Case> {
    let zstd: &[u8] = b"\x28\xb5\x2f\xfd\x04\x00\x11\x00\x00{}\x6d\x3e\x5d\x4b";
    [("zstd", zstd), ("gzip", b"not gzip")]
        .map(|(name, body)| {
            let fields = format!("Content-Encoding: {name}\r\nContent-Length: {}\r\n", body.len());
            let request = [request("POST", path, &fields, "").as_bytes(), body].concat();
            let fact = format!("a body in {name} of {} bytes passes", body.len());
            Case::plain(&fact, &[], request, OK).on(path)
        })
        .into()
}

fn responses_bodies() -> Vec<Case> {
    [
        ("an input that is a string stays", &br#"{"model":"m","input":"hi"}"#[..]),
        ("odd spacing stays", b" {\"model\" :\t\"m\" ,\r\n \"input\":[ ]\n}\n\n"),
        ("key order and unknown keys stay", br#"{"z":1,"input":[{"x_y":{},"content":"a","role":"user","type":"message"}],"a":{"b":[]},"client_metadata":{"k":"v"},"model":"m"}"#),
        ("duplicate keys stay", br#"{"model":"a","model":"b","input":[],"input":[{"role":"user","content":"x"}]}"#),
        ("numbers keep their digits", br#"{"model":"m","input":"a","max_output_tokens":16e0,"temperature":1.0,"seed":123456789012345678901234567890}"#),
        ("escapes stay as written", br#"{"model":"m","input":[{"role":"user","content":"\u00e9\/\ud83d\udc4b\u0000\ud800"}]}"#),
        ("items of odd types stay", br#"{"model":1,"input":{"role":[]},"tools":"x","stream":"yes"}"#),
        ("null among the items stays", br#"{"model":"m","input":[null,{"type":"message","role":"user","content":null}]}"#),
        ("items of kinds unknown today stay", br#"{"model":"m","input":[{"role":"user","content":"a"},{"type":"thought_graph","id":"tg_1","nodes":[1]},{"id":"msg_7"},{"type":"later_call","call_id":"c"}]}"#),
        ("reasoning, calls and outputs stay", br#"{"model":"m","store":false,"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"},{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{\"a\" : 1}"},{"type":"function_call_output","call_id":"c","output":"b"}],"include":["reasoning.encrypted_content"]}"#),
        ("an output without its call stays", br#"{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":"b"}]}"#),
        ("a stateful request stays", br#"{"model":"m","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"c","output":"b"}]}"#),
        ("an order to compact stays", br#"{"model":"m","input":[{"role":"user","content":"a"},{"type":"compaction_trigger"}]}"#),
    ]
    .into_iter()
    .map(|(name, text)| body(RESPONSES, name, text))
    .collect()
}

fn messages_bodies() -> Vec<Case> {
    [
        ("odd spacing stays", &b" {\"model\" :\t\"m\" ,\r\n \"max_tokens\":1,\"messages\":[ ]\n}\n\n"[..]),
        ("key order and unknown keys stay", br#"{"z":1,"messages":[{"x_y":{},"content":"a","role":"user"}],"a":{"b":[]},"system":[{"text":"s","type":"text","cache_control":{"type":"ephemeral"}}],"max_tokens":9,"model":"m"}"#),
        ("duplicate keys stay", br#"{"model":"a","max_tokens":9,"messages":[],"messages":[{"role":"user","content":"x"}]}"#),
        ("numbers keep their digits", br#"{"model":"m","messages":[],"max_tokens":1e2,"temperature":1.0,"top_p":1E-0,"top_k":0.10}"#),
        ("escapes stay as written", br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\u00e9\/\ud83d\udc4b\u0000\ud800"}]}"#),
        ("messages of odd types stay", br#"{"model":1,"messages":{"role":[]},"tools":"x","stream":"yes"}"#),
        ("null, empty and missing content stay", br#"{"model":"m","messages":[{"role":"user","content":null},{"role":"user","content":""},{"role":"user"},null]}"#),
        ("blocks of kinds unknown today stay", br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"hologram","data":[1]},{"type":"text","text":"a"}]}]}"#),
        ("thinking, calls and results stay", br#"{"model":"m","max_tokens":9,"tools":[{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s=="},{"type":"tool_use","id":"t","name":"f","input":{"a" : 1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"b","is_error":true},{"type":"text","text":"<system-reminder>r</system-reminder>"}]}]}"#),
        ("a call without a result stays", br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":"b"}]}"#),
        ("a history that the provider keeps stays", br#"{"model":"m","max_tokens":9,"thread":{"type":"continue","previous_message_id":"msg_1"},"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"b"}]}]}"#),
    ]
    .into_iter()
    .map(|(name, text)| body(MESSAGES, name, text))
    .collect()
}

/// Replies that are errors, none of them an overflow.
fn errors(path: &'static str) -> Vec<Case> {
    let nested = r#"{"type":"error","error":{"type":"invalid_request_error","message":"tools.0: no","param":null,"code":null},"request_id":"req_1"}"#;
    let limited = r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed the rate limit of 30000 input tokens per minute"}}"#;
    [
        ("400 Bad Request", nested),
        ("401 Unauthorized", r#"{"error":{"message":"no key","type":"authentication_error"}}"#),
        ("404 Not Found", "<html>no</html>"),
        ("429 Too Many Requests", limited),
        ("500 Internal Server Error", ""),
        ("529 Overloaded", r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        ("200 OK", r#"{"type":"error","error":{"type":"api_error","message":"mid"}}"#),
    ]
    .into_iter()
    .map(|(status, text)| {
        let reply = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nrequest-id: req_1\r\nretry-after: 7\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        let fact = format!("an error passes: {status}");
        Case::plain(&fact, &[], post(path, small(path)), reply).on(path)
    })
    .collect()
}

/// Returns the smallest valid request of an API.
fn small(path: &str) -> &'static str {
    match path {
        MESSAGES => r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#,
        GOOGLE => {
            r#"{"anthropic_version":"vertex-2023-10-16","max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#
        }
        INVOKE => {
            r#"{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#
        }
        _ => r#"{"model":"m","input":"a"}"#,
    }
}

/// Streams of binary frames, whole and broken, none of them an overflow. Checksums are left out.
fn frames() -> Vec<Case> {
    let event: &[u8] =
        b"\0\0\0\x2d\0\0\0\x16\0\0\0\0\x0d:message-type\x07\0\x05event{\"p\":1}\0\0\0\0";
    let error: &[u8] = b"\0\0\0\x3c\0\0\0\x1a\0\0\0\0\x0d:message-type\x07\0\x09exception{\"message\":\"slow\"}\0\0\0\0";
    [
        ("frames pass", [event, event].concat()),
        ("an exception that is no overflow passes", error.to_vec()),
        ("a frame that breaks off passes", event[..30].to_vec()),
        ("a frame of false lengths passes", [b"\0\0\0\x08", event].concat()),
        ("a frame of 16 MB that never comes passes", [b"\0\xff\xff\xff", event].concat()),
    ]
    .into_iter()
    .map(|(name, frames)| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\nContent-Length: {}\r\n\r\n",
            frames.len()
        );
        let reply = [head.as_bytes(), &frames].concat();
        Case::plain(name, &[], post(INVOKE, small(INVOKE)), reply).on(INVOKE)
    })
    .collect()
}

/// Replies that are whole answers.
fn answers() -> Vec<Case> {
    let answer = |path: &'static str, name: &str, text: &str| {
        let reply = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        Case::plain(name, &[], post(path, small(path)), reply).on(path)
    };
    vec![
        answer(
            RESPONSES,
            "an answer passes",
            r#"{"id":"resp_1","object":"response","status":"completed","error":null,"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":3,"output_tokens":1}} "#,
        ),
        answer(
            RESPONSES,
            "an incomplete answer passes",
            r#"{"id":"resp_1","object":"response","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[{"type":"message","role":"assistant","content":[]}],"usage":{"input_tokens":3,"output_tokens":0}}"#,
        ),
        answer(
            RESPONSES,
            "a queued answer passes",
            r#"{"id":"resp_1","object":"response","status":"queued","output":[]}"#,
        ),
        answer(
            MESSAGES,
            "an answer passes",
            r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}} "#,
        ),
        answer(
            GOOGLE,
            "an answer passes",
            r#"{"id":"msg_vrtx_1","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}"#,
        ),
        answer(
            MESSAGES,
            "a refusal of the model passes",
            r#"{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":"refusal","usage":{"input_tokens":3,"output_tokens":0}}"#,
        ),
    ]
}

/// Builds a case of a stream. longhaul may hold the parts of `held` until the first of `parts`, which all
/// go on one by one.
fn streamed(
    path: &'static str,
    name: &str,
    held: &'static [&'static str],
    parts: &'static [&'static str],
) -> Case {
    let case = Case::scripted(name, &["chunk sizes"], move |x| {
        Box::pin(async move {
            let body = small(path).replacen('{', r#"{"stream":true,"#, 1);
            x.client.says(post(path, body)).await;
            x.upstream.sees_request().await;
            x.upstream.says(STREAM).await;
            for part in held {
                x.upstream.peer().sends(chunk(part).as_bytes()).await;
            }
            for part in parts {
                x.upstream.peer().sends(chunk(part).as_bytes()).await;
                x.client.sees(part).await;
            }
            x.upstream.says("0\r\n\r\n").await;
            x.client.sees("0\r\n\r\n").await;
        })
    });
    case.on(path)
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn responses_streams() -> Vec<Case> {
    const CREATED: &str = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"error\":null}}\n\n";
    const WORKING: &str = "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":1,\"response\":{\"id\":\"resp_1\"}}\n\n";
    const ADDED: &str = "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"msg_1\"}}\n\n";
    const DELTA: &str = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\",\"obfuscation\":\"x\"}\n\n";
    const DONE: &str = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n";
    vec![
        streamed(RESPONSES, "events go on one by one", &[CREATED, WORKING], &[ADDED, DELTA, DONE]),
        streamed(
            RESPONSES,
            "events without a name go on",
            &[],
            &[
                "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\r\n\r\n",
                "data: {\"type\":\"response.completed\",\"response\":{}}\r\r",
                "data: [DONE]\n\n",
            ],
        ),
        streamed(
            RESPONSES,
            "events of other kinds go on behind the first content",
            &[
                ": comment\n\n",
                CREATED,
                "event: codex.rate_limits\ndata: {\"type\":\"codex.rate_limits\",\"rate_limits\":{}}\n\n",
            ],
            &[
                ADDED,
                "event: response.later\ndata: {\"type\":\"response.later\"}\n\n",
                "nonsense\n\n",
                DONE,
            ],
        ),
        streamed(
            RESPONSES,
            "an error that comes later in a stream passes",
            &[CREATED],
            &[
                ADDED,
                DELTA,
                "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"mid\",\"param\":null}\n\n",
            ],
        ),
        streamed(
            RESPONSES,
            "a failure that is no overflow passes",
            &[CREATED],
            &[
                "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"resp_1\",\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"Rate limit reached: Limit 30000, Used 22999, Requested 12528.\"}}}\n\n",
            ],
        ),
    ]
}

fn messages_streams() -> Vec<Case> {
    const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n";
    const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    const BLOCK: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
    const DELTA: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n";
    const END: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    vec![
        streamed(MESSAGES, "events go on one by one", &[START, PING], &[BLOCK, DELTA, PING, END]),
        streamed(GOOGLE, "events go on one by one", &[START, PING], &[BLOCK, DELTA, PING, END]),
        streamed(
            MESSAGES,
            "thinking and calls go on one by one",
            &[START],
            &[
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
                "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s==\"}}\n\n",
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n",
                END,
            ],
        ),
        streamed(
            MESSAGES,
            "every line ending and event of other kinds pass",
            &[START],
            &[
                "event: content_block_start\r\ndata: {\"type\":\"content_block_start\",\"index\":0}\r\n\r\n",
                "event: later\rdata: {\"type\":\"later\"}\r\r",
                "nonsense\n:\n\n\n\n",
                END,
            ],
        ),
        streamed(
            MESSAGES,
            "an error that comes later in a stream passes",
            &[START],
            &[
                BLOCK,
                DELTA,
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            ],
        ),
        streamed(
            MESSAGES,
            "an error that is no overflow passes",
            &[START],
            &[
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            ],
        ),
    ]
}
