//! HTTP/2 with prior knowledge, frame by frame: resets, floods and silence.

use std::time::Duration;

use tokio::time::{pause, resume, timeout};

use super::Pair;
use crate::harness::{Proxy, Upstream};

/// The connection preface (RFC 9113, 3.4) with an empty SETTINGS frame.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `GET http://x/` in HPACK: three entries of the static table, and an authority.
const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'x'];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Limit on the growth of the program, in bytes.
const ROOM: usize = 4 << 20;
/// Size that a flooding head would have if the program buffered it, in bytes.
const FLOOD: usize = 10 * ROOM;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Splits the received bytes into frames: kind and payload.
fn frames(mut heard: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = heard {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some(payload) = rest.get(..length) else {
            break;
        };
        frames.push((*kind, payload.to_vec()));
        heard = &rest[length..];
    }
    frames
}

/// Returns the error code of the last GOAWAY frame, or `None` without one.
fn said_goodbye(heard: &[u8]) -> Option<u32> {
    let frames = frames(heard);
    let (_, payload) = frames.iter().rfind(|(kind, _)| *kind == GOAWAY)?;
    Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()))
}

/// Opens a connection, floods it, and returns the error code of its GOAWAY frame.
async fn check(times: usize, flood: impl Fn(u32) -> Vec<u8>) -> Option<u32> {
    let pair = Pair::start().await;
    pair.still_serves().await;
    let before = pair.peak();
    let mut client = pair.connect().await;
    client.send_bytes(OPENING).await;
    for at in 0..times {
        let at = u32::try_from(at).unwrap();
        if !client.tries_to_send(&flood(at)).await || client.is_ended() {
            break;
        }
    }
    let ended = said_goodbye(&client.rest_bytes().await);
    let grown = pair.peak() - before;
    assert!(grown < ROOM, "{} KiB", grown >> 10);
    // The upstream requests of the reset streams have ended, too.
    let mut client = pair.connect().await;
    let ask = "GET /v1/still-serves HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    client.send(ask).await;
    loop {
        let mut server = pair.upstream.accept().await;
        let head = server.head_or_end().await;
        if head.starts_with("GET /v1/still-serves ") {
            server.send(super::OK).await;
            break;
        }
        assert_eq!(server.rest().await, "", "a request that nobody waits for goes on");
    }
    assert!(client.rest().await.ends_with("ok"));
    ended
}

#[tokio::test]
async fn rapid_stream_resets_end_the_connection() {
    let ended = check(1_000, |round| {
        let mut flood = Vec::new();
        for at in 0..100 {
            let stream = (round * 100 + at) * 2 + 1;
            flood.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, GET));
            flood.extend(frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
        }
        flood
    })
    .await;
    assert_eq!(ended, Some(ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn endless_continuation_frames_end_the_connection() {
    // A literal field without indexing, with a value of 200 bytes.
    let mut field = vec![0, 1, b'a', 0x7f, 73];
    field.extend([b'x'; 200]);
    let fields = field.repeat(20);
    let ended = check(FLOOD / fields.len(), |at| {
        if at == 0 {
            return frame(HEADERS, END_STREAM, 1, GET);
        }
        frame(CONTINUATION, 0, 1, &fields)
    })
    .await;
    assert!(ended.is_some(), "it was ended, and in words");
}

/// A large field in the table, then one-byte references to it: 15 kB expand to 40 MB.
#[tokio::test]
async fn repeated_references_to_a_large_header_end_the_connection() {
    const LARGE: usize = 3_900;
    let mut head = GET.to_vec();
    // A literal field with indexing, name `a`. The value's length is encoded as 127 plus a
    // remainder in groups of seven bits.
    head.extend([0x40, 1, b'a', 0x7f, 0xbd, 0x1d]);
    head.extend([b'x'; LARGE]);
    head.extend([0xbe; FLOOD / LARGE]);
    let ended = check(1, |_| frame(HEADERS, END_HEADERS | END_STREAM, 1, &head)).await;
    assert_eq!(ended, Some(ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn malformed_frames_end_the_connection() {
    for wrong in [
        frame(DATA, 0, 0, b"x"),
        frame(HEADERS, END_HEADERS, 2, GET),
        frame(CONTINUATION, END_HEADERS, 1, GET),
        frame(PING, 0, 0, b"short"),
        vec![0xff; 64],
    ] {
        let ended = check(1, |_| wrong.clone()).await;
        assert!(ended.is_some_and(|code| code > 0), "{wrong:?}: {ended:?}");
    }
}

/// Longer than every deadline. The paused clock jumps to the next timer when the runtime is idle.
const LONG: Duration = Duration::from_hours(1);

#[tokio::test]
async fn connection_that_stalls_after_its_preface_is_closed() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let half = &frame(HEADERS, END_HEADERS, 1, GET)[..10];
    for said in [OPENING, &OPENING[..24], &[OPENING, half].concat()] {
        let mut client = proxy.connect().await;
        client.send_bytes(said).await;
        pause();
        let ended = timeout(LONG, client.rest_bytes()).await;
        assert!(ended.is_ok(), "{} bytes were said", said.len());
        resume();
    }
}
