//! Compressed chats: read like any other, and forwarded byte for byte if unchanged.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use longhaul::Config;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{Model, ModelOptions, ValidityRules, Verdict};
use proptest::prelude::*;

use crate::harness::{Proxy, Upstream, Wire};
use crate::journey::{bodies, digests};
use crate::program::Program;
use crate::sessions::named;

const CODINGS: [&str; 5] = ["br", "deflate", "gzip", "zstd", "gzip, br"];
const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
const OVERFLOW: &str = r#"{"error":{"message":"This model's maximum context length is 16384 tokens. However, your messages resulted in 60000 tokens.","code":"context_length_exceeded"}}"#;

fn encode(codings: &str, text: &[u8]) -> Vec<u8> {
    let level = Compression::default();
    match codings {
        "br" => {
            let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
            encoder.write_all(text).unwrap();
            encoder.into_inner()
        }
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::encode_all(text, 3).unwrap(),
        several => several.split(", ").fold(text.to_vec(), |text, coding| encode(coding, &text)),
    }
}

/// Framing of a client's body.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    /// Content length, written at once.
    Length,
    /// Content length, written in pieces of this many bytes.
    LengthInPieces(usize),
    /// Chunks of this many bytes.
    Chunks(usize),
}

const FRAMINGS: [Framing; 6] = [
    Framing::Length,
    Framing::LengthInPieces(5),
    Framing::LengthInPieces(4_096),
    Framing::Chunks(1),
    Framing::Chunks(100),
    Framing::Chunks(1 << 20),
];

async fn send(client: &mut Wire, coding: &str, body: &[u8], framing: Framing) {
    let framed = match framing {
        Framing::Length | Framing::LengthInPieces(_) => format!("Content-Length: {}", body.len()),
        Framing::Chunks(_) => "Transfer-Encoding: chunked".to_owned(),
    };
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-One: 1\r\n\
         Content-ENCODING: {coding}\r\n{framed}\r\nX-Two: 2\r\n\r\n"
    );
    client.send(&head).await;
    match framing {
        Framing::Length => client.send_bytes(body).await,
        Framing::LengthInPieces(bytes) => {
            for piece in body.chunks(bytes) {
                client.send_bytes(piece).await;
            }
        }
        Framing::Chunks(bytes) => {
            for piece in body.chunks(bytes) {
                let head = format!("{:x}\r\n", piece.len());
                client.send_bytes(&[head.as_bytes(), piece, b"\r\n"].concat()).await;
            }
            client.send("0\r\n\r\n").await;
        }
    }
}

/// Receives a request: its head, and its body without framing.
async fn receive(server: &mut Wire) -> (String, Vec<u8>) {
    let head = server.until("\r\n\r\n").await;
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    if let Some(length) = length {
        let body = server.exactly(length.parse().unwrap()).await;
        return (head, body);
    }
    assert!(lower.contains("transfer-encoding: chunked"), "{head}");
    let mut body = Vec::new();
    loop {
        let size = server.until("\r\n").await;
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        body.extend(server.exactly(size).await);
        assert_eq!(server.exactly(2).await, b"\r\n");
        if size == 0 {
            return (head, body);
        }
    }
}

/// Sends a chat and answers it. Returns the head and the body that the upstream received.
async fn passed(
    (upstream, proxy): (&Upstream, &Proxy),
    coding: &str,
    body: &[u8],
    framing: Framing,
) -> (String, Vec<u8>) {
    let mut client = proxy.connect().await;
    let there = async {
        let mut server = upstream.accept().await;
        let got = receive(&mut server).await;
        server.send(ANSWER).await;
        got
    };
    let ((), got) = tokio::join!(send(&mut client, coding, body, framing), there);
    assert!(client.until("{}").await.starts_with("HTTP/1.1 200 OK\r\n"));
    got
}

async fn pair(changes: &[(&str, &str)]) -> (Upstream, Proxy) {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), changes).await;
    (upstream, proxy)
}

/// A chat that needs no change.
const SHORT: &[u8] =
    br#"{"model": "m", "messages": [ {"role": "user", "content": "hello, hello"} ]}"#;

#[tokio::test]
async fn forwards_unchanged_encoded_bodies_byte_for_byte() {
    let (upstream, proxy) = pair(&[]).await;
    let host = upstream.address();
    for coding in CODINGS {
        let body = encode(coding, SHORT);
        for framing in FRAMINGS {
            let (head, got) = passed((&upstream, &proxy), coding, &body, framing).await;
            let length = body.len();
            let named = if matches!(framing, Framing::Chunks(_)) {
                "content-length"
            } else {
                "Content-Length"
            };
            let expect = format!(
                "POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nX-One: 1\r\n\
                 Content-ENCODING: {coding}\r\n{named}: {length}\r\nX-Two: 2\r\n\r\n"
            );
            assert_eq!(head, expect, "{coding}, {framing:?}");
            assert!(got == body, "{coding}, {framing:?}");
        }
    }
}

/// More than half a MiB of data that does not compress well.
fn noise() -> Vec<u8> {
    (0..600_000u32)
        .map(|at| b'a' + u8::try_from(at.wrapping_mul(2_654_435_761) >> 28).unwrap())
        .collect()
}

#[tokio::test]
async fn forwards_undecodable_bodies_byte_for_byte() {
    let (upstream, proxy) = pair(&[("limits.body", "2MiB")]).await;
    for coding in CODINGS {
        let sound = encode(coding, SHORT);
        let cases: [(&str, &str, Vec<u8>); 7] = [
            ("corrupt", coding, SHORT.to_vec()),
            ("truncated", coding, sound[..sound.len() - 1].to_vec()),
            ("garbage behind it", coding, [&sound, &b"x"[..]].concat()),
            ("bomb", coding, encode(coding, &vec![b' '; 1 << 20])),
            ("too large", coding, encode(coding, &noise().repeat(4))),
            ("unknown coding", "compress", sound.clone()),
            ("too many codings", "gzip, gzip, gzip, gzip", sound.clone()),
        ];
        for (what, coding, body) in cases {
            for framing in [Framing::Length, Framing::LengthInPieces(4_096), Framing::Chunks(4_096)]
            {
                let (head, got) = passed((&upstream, &proxy), coding, &body, framing).await;
                assert!(head.contains(&format!("Content-ENCODING: {coding}\r\n")), "{head}");
                assert!(got == body, "{what}, {coding}, {framing:?}: {} bytes", got.len());
                let chunked = head.contains("Transfer-Encoding: chunked\r\n");
                let came = matches!(framing, Framing::Chunks(_));
                assert_eq!(chunked, came, "{what}, {coding}, {framing:?}");
            }
        }
    }
}

#[tokio::test]
async fn logs_why_a_chat_was_not_decoded() {
    let upstream = Upstream::bind().await;
    let program = Program::told(&upstream.base(""), &[("LONGHAUL_LIMITS_BODY", "100000")]);
    let half = &encode("zstd", SHORT)[..20];
    let cases = [
        ("gzip", encode("gzip", &vec![b' '; 90_000])),
        ("zstd", half.to_vec()),
        ("br", encode("br", &noise())),
    ];
    for (coding, body) in cases {
        let mut client = Wire::to(program.address()).await;
        let there = async {
            let mut server = upstream.accept().await;
            assert!(receive(&mut server).await.1 == body);
            server.send(ANSWER).await;
        };
        tokio::join!(send(&mut client, coding, &body, Framing::Length), there);
        client.until("{}").await;
    }
    let said = program.ended();
    let reasons = [
        "the body inflates by more than text does",
        "the body does not match its content coding",
        "the body exceeds limits.body",
    ];
    for reason in reasons {
        assert!(said.contains(&format!("reason=\"{reason}\"")), "{reason}: {said}");
    }
}

/// Sends a chat with an ordinary client. Returns the status and body of the answer.
async fn ask(proxy: &Proxy, coding: Option<&str>, body: Vec<u8>) -> (u16, Bytes) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut request = Request::post(format!("http://{}/v1/chat/completions", proxy.address))
        .header("content-type", "application/json");
    if let Some(coding) = coding {
        request = request.header("content-encoding", coding);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let (head, body) = client.request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), body)
}

#[tokio::test]
async fn compacted_encoded_request_is_sent_plain_like_a_plain_one() {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let mut config = Config::default_with([("upstream.base", model.url().as_str())]).unwrap();
    digests(&mut config);
    config.window = Tokens::new(16_384);
    let body = bodies(&named("cli-0237").replay()).last().unwrap();
    let plain = Proxy::with(config.clone()).await;
    assert_eq!(ask(&plain, None, body.clone()).await.0, 200);
    let expect = model.seen().pop().unwrap().body;
    assert!(expect.len() < body.len(), "it is rewritten");
    for coding in CODINGS {
        let proxy = Proxy::with(config.clone()).await;
        let (status, answer) = ask(&proxy, Some(coding), encode(coding, &body)).await;
        let seen = model.seen().pop().unwrap();
        assert_eq!((status, seen.verdict), (200, Verdict::Accepted), "{coding}");
        assert!(!answer.is_empty());
        assert!(seen.body == expect, "{coding}");
        assert!(seen.headers.get("content-encoding").is_none(), "{coding}");
        let length = seen.headers["content-length"].to_str().unwrap();
        assert_eq!(length, expect.len().to_string(), "{coding}");
        assert_eq!(seen.headers["content-type"], "application/json");
    }
}

#[tokio::test]
async fn encoded_and_plain_requests_of_a_conversation_share_its_records() {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let mut config = Config::default_with([("upstream.base", model.url().as_str())]).unwrap();
    digests(&mut config);
    config.window = Tokens::new(16_384);
    let proxy = Proxy::with(config).await;
    let body = bodies(&named("cli-0237").replay()).last().unwrap();
    for coding in [Some("zstd"), None, Some("gzip")] {
        let sent = coding.map_or_else(|| body.clone(), |coding| encode(coding, &body));
        assert_eq!(ask(&proxy, coding, sent).await.0, 200);
    }
    let seen = model.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|one| one.body == seen[0].body));
}

#[tokio::test]
async fn retry_of_a_refused_encoded_chat_is_sent_plain() {
    let text = bodies(&named("cli-0237").replay()).nth(15).unwrap();
    for coding in CODINGS {
        // A fresh proxy for each, without a window learned from an earlier refusal.
        let (upstream, proxy) = pair(&[("summary.model", "none")]).await;
        let body = encode(coding, &text);
        let mut client = Wire::to(proxy.address).await;
        let there = async {
            let mut server = upstream.accept().await;
            let (head, first) = receive(&mut server).await;
            assert!(head.contains(&format!("Content-ENCODING: {coding}\r\n")), "{head}");
            assert!(first == body, "{coding}");
            let length = OVERFLOW.len();
            let refusal = format!(
                "HTTP/1.1 400 No\r\nContent-Type: application/json\r\nConnection: close\r\n\
                 Content-Length: {length}\r\n\r\n{OVERFLOW}"
            );
            server.send(&refusal).await;
            let mut server = upstream.accept().await;
            let (head, second) = receive(&mut server).await;
            assert!(!head.to_lowercase().contains("content-encoding"), "{head}");
            assert!(head.contains("X-One: 1\r\n") && head.contains("X-Two: 2\r\n"), "{head}");
            assert!(second.len() < text.len());
            serde_json::from_slice::<serde::de::IgnoredAny>(&second).unwrap();
            server.send(ANSWER).await;
        };
        tokio::join!(send(&mut client, coding, &body, Framing::Length), there);
        assert!(client.until("{}").await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}

#[tokio::test]
async fn resends_the_original_encoded_bytes_if_the_rewrite_is_refused() {
    let options = ModelOptions {
        validity: ValidityRules::standard().with("alternation").unwrap(),
        ..ModelOptions::with_window(10_000_000)
    };
    let model = Model::start(options).await.unwrap();
    let mut config = Config::default_with([("upstream.base", model.url().as_str())]).unwrap();
    digests(&mut config);
    config.compaction.prune = false;
    config.window = Tokens::new(48_000);
    let proxy = Proxy::with(config).await;
    let mut before = 0;
    for text in bodies(&named("cli-0018").replay()) {
        let body = encode("zstd", &text);
        ask(&proxy, Some("zstd"), body.clone()).await;
        let seen = model.seen();
        if seen.len() - before == 2 {
            assert_eq!(seen[before].verdict, Verdict::Broken("alternation"));
            assert!(seen[before].headers.get("content-encoding").is_none());
            assert!(seen[before + 1].body == body);
            assert_eq!(seen[before + 1].headers["content-encoding"], "zstd");
            return;
        }
        before = seen.len();
    }
    panic!("a digest makes two user messages in a row");
}

#[test]
fn forwards_arbitrary_bytes_under_any_coding_unchanged() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (upstream, proxy) = runtime.block_on(pair(&[]));
    let framings = prop::sample::select(&FRAMINGS[..]);
    let codings = prop::sample::select(&CODINGS[..]);
    let bytes = prop::collection::vec(any::<u8>(), 1..300);
    let damaged = (any::<prop::sample::Index>(), any::<u8>());
    proptest!(crate::script::cases(64), |(framing in framings, coding in codings, bytes in bytes, damage in prop::option::of(damaged))| {
        let body = match damage {
            None => bytes,
            Some((at, flip)) => {
                let mut body = encode(coding, SHORT);
                let at = at.index(body.len());
                body[at] ^= flip;
                body
            }
        };
        let got = runtime.block_on(passed((&upstream, &proxy), coding, &body, framing));
        prop_assert!(got.1 == body, "{coding}, {framing:?}");
    });
}
