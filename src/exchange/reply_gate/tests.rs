//! Tests with scripted replies on a paused clock.

use std::collections::VecDeque;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::{Instant, Sleep, sleep};

use super::*;
use longhaul_core::dialect::Dialect;
use longhaul_core::overflow::{ClassifierRules, Evidence, LimitKind, Overflow};

const REFUSED: &str =
    r#"{"error":{"message":"prompt is too long: 208732 tokens > 200000 maximum"}}"#;
const ROLE: &str =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const CONTENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n";
const COMMENT: &str = ": OPENROUTER PROCESSING\n\n";

/// `REFUSED` in brotli, as zlib of node 20 compresses it.
const REFUSED_BROTLI: &[u8] =
    b"\x1b\x49\x00\x58\x14\xa1\xd2\x75\x6e\xa9\x7e\x0f\xc9\x61\xd0\x11\x6c\xdd\xe0\x60\x42\x63\
    \x78\xc0\x45\xbf\x10\xa3\x78\x53\x22\x4e\x0e\x70\x20\xa3\x47\xac\xc8\xe2\x85\x8a\x2a\xb5\
    \x88\x4f\xa5\x7f\x7b\x9e\xb8\x81\x34\xc3\xae\x42\xc6\x5e\x53\x30\x38\x70\x20\x86\x61\x37";

/// `REFUSED` as an event of a brotli stream that was flushed and continues.
const EVENT_BROTLI: &[u8] =
    b"\x8b\x28\x00\xa0\x44\xe7\xd6\x29\xe9\x7b\x48\x0e\x83\x8e\x60\xeb\x06\x07\x13\x9a\xd3\x31\
    \x0e\xd8\x87\xc1\xe7\x5b\x06\x1d\xc0\xf6\x18\x1b\xbe\xe7\x90\x01\xd4\x86\xc7\x60\x68\x8f\
    \xc6\xa7\x31\xae\x9f\x28\xec\x44\xb9\xa3\x67\x0d\xda\xe6\xe8\x8a\xed\x95\x58\x00\x79\x5b\
    \xf9\xbf\x88\x01";

/// Four MiB of spaces and `REFUSED`, in brotli.
const BOMB_BROTLI: &[u8] =
    b"\x9b\x49\x00\x40\xe8\xc5\xda\x66\xaa\xc7\x87\x74\xbc\x61\xe3\xc3\x5a\x93\x31\xb6\x79\xf2\
    \xda\xc4\xd6\xa4\x20\x93\x1e\x53\x08\x7a\xe7\xde\xff\x80\x2d\xab\x99\x4a\x8b\x65\xe3\x97\
    \x20\x0d\xeb\xa9\xbf\x4f\x3c\x03\x53\xc2\xa7\x76\x07\x9c\xe7\x51\x1c\x53\x6f\x6d\x03\x17\
    \x9c\x24\xd9\x14\x00\xb0\xbd\x01";

const OVERFLOW: Verdict = Verdict::Overflow(Overflow {
    evidence: Evidence::Stated,
    kind: LimitKind::Window,
    excess: None,
    limit: Some(200_000),
    output: None,
    used: Some(208_732),
});

/// A body that follows a script.
struct Script {
    acts: VecDeque<Act>,
    waiting: Option<Pin<Box<Sleep>>>,
    announced: Option<u64>,
}

enum Act {
    Chunk(Bytes),
    Fail,
    Hang,
    Trailers(HeaderMap),
    Wait(Duration),
}

#[derive(Debug, PartialEq, Eq)]
struct Broken;

impl Body for Script {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                if waiting.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.waiting = None;
            }
            return match self.acts.pop_front() {
                Some(Act::Chunk(chunk)) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
                Some(Act::Fail) => Poll::Ready(Some(Err(Broken))),
                Some(Act::Hang) => {
                    self.acts.push_front(Act::Hang);
                    Poll::Pending
                }
                Some(Act::Trailers(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Some(Act::Wait(time)) => {
                    self.waiting = Some(Box::pin(sleep(time)));
                    continue;
                }
                None => Poll::Ready(None),
            };
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn chunk(text: impl AsRef<[u8]>) -> Act {
    Act::Chunk(Bytes::copy_from_slice(text.as_ref()))
}

fn reply(status: u16, acts: impl IntoIterator<Item = Act>) -> Response<Script> {
    let acts = acts.into_iter().collect();
    let body = Script { acts, waiting: None, announced: None };
    Response::builder().status(status).body(body).unwrap()
}

fn encoded(reply: Response<Script>, coding: &'static str) -> Response<Script> {
    let mut reply = reply;
    reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    reply
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

async fn relayed(judged: JudgedReply<Script>) -> Vec<u8> {
    judged.response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

/// Checks the verdict on a reply, and that the reply is relayed byte for byte, in three chunkings.
async fn check(status: u16, coding: Option<&'static str>, body: &[u8], verdict: Verdict) {
    for size in [1, 7, body.len().max(1)] {
        let mut reply = reply(status, body.chunks(size).map(chunk));
        if let Some(coding) = coding {
            reply = encoded(reply, coding);
        }
        let judged = judge(reply, HoldPolicy::Everything).await;
        assert_eq!(judged.verdict, verdict, "chunks of {size}");
        assert_eq!(relayed(judged).await, body, "chunks of {size}");
    }
}

async fn judge<B>(response: Response<B>, holding: HoldPolicy) -> JudgedReply<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    judge_within(&BufferBudget::new(64 << 20), response, holding).await
}

async fn judge_within<B>(
    budget: &BufferBudget,
    response: Response<B>,
    holding: HoldPolicy,
) -> JudgedReply<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    crate::exchange::reply_gate::judge(
        response,
        holding,
        |status| {
            let rules = ClassifierRules::standard();
            ReplyClassifier::new(Dialect::ChatCompletions, status, rules, None)
        },
        budget,
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn judges_every_reply_format_and_relays_it_byte_for_byte() {
    let stream = format!("{COMMENT}{COMMENT}{ROLE}data: {REFUSED}\n\ndata: [DONE]\n\n");
    let answer = r#"{"id":"a","choices":[{"message":{"content":"prompt is too long"}}]}"#;
    check(400, None, REFUSED.as_bytes(), OVERFLOW).await;
    check(500, None, REFUSED.as_bytes(), OVERFLOW).await;
    check(200, None, REFUSED.as_bytes(), OVERFLOW).await;
    check(200, None, stream.as_bytes(), OVERFLOW).await;
    check(200, None, answer.as_bytes(), Verdict::Fine).await;
    check(200, None, format!("{ROLE}{CONTENT}data: {REFUSED}\n\n").as_bytes(), Verdict::Fine).await;
    check(429, None, REFUSED.as_bytes(), Verdict::Fine).await;
    check(
        413,
        None,
        b"<html>413 Request Entity Too Large</html>",
        Verdict::BodyTooLarge(longhaul_core::units::body_limits::BodyLimits::UNKNOWN),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_compressed_reply_is_judged_on_a_copy() {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(REFUSED.as_bytes()).unwrap();
    check(400, Some("gzip"), &gzip(REFUSED.as_bytes()), OVERFLOW).await;
    check(400, Some("deflate"), &zlib.finish().unwrap(), OVERFLOW).await;
    check(400, Some("br"), REFUSED_BROTLI, OVERFLOW).await;
    let zstd = zstd::encode_all(REFUSED.as_bytes(), 3).unwrap();
    check(400, Some("zstd"), &zstd, OVERFLOW).await;
    check(400, Some("zstd, gzip"), &gzip(&zstd), OVERFLOW).await;
    check(400, Some("identity"), REFUSED.as_bytes(), OVERFLOW).await;
    check(200, Some("GZIP"), &gzip(format!("data: {REFUSED}\n\n").as_bytes()), OVERFLOW).await;
}

#[tokio::test(start_paused = true)]
async fn undecodable_or_bomb_reply_passes_unjudged() {
    let mut bomb = vec![b' '; 4 * 1024 * 1024];
    bomb.extend_from_slice(REFUSED.as_bytes());
    check(400, Some("gzip"), &gzip(&bomb), Verdict::Fine).await;
    check(400, Some("br"), BOMB_BROTLI, Verdict::Fine).await;
    check(400, Some("gzip"), REFUSED.as_bytes(), Verdict::Fine).await;
    check(400, Some("br"), REFUSED.as_bytes(), Verdict::Fine).await;
    check(400, Some("zstd"), REFUSED.as_bytes(), Verdict::Fine).await;
}

#[tokio::test(start_paused = true)]
async fn judges_a_compressed_stream_at_its_first_event() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(format!("data: {REFUSED}\n\n").as_bytes()).unwrap();
    encoder.flush().unwrap();
    for (coding, event) in [("gzip", encoder.get_ref().as_slice()), ("br", EVENT_BROTLI)] {
        let reply = encoded(reply(200, [chunk(event), Act::Hang]), coding);
        assert_eq!(judge(reply, HoldPolicy::Everything).await.verdict, OVERFLOW, "{coding}");
    }
}

#[tokio::test(start_paused = true)]
async fn judges_a_compressed_reply_only_if_the_budget_fits_its_decoder() {
    let budget = BufferBudget::new(17 << 20);
    let refused = || encoded(reply(400, [chunk(REFUSED_BROTLI)]), "br");
    let everything = HoldPolicy::Everything;
    for _ in 0..3 {
        let judged = judge_within(&budget, refused(), everything).await;
        assert_eq!(judged.verdict, OVERFLOW, "the budget was released");
    }
    let mut bodies = budget.reservation();
    bodies.grow_to(1 << 20).unwrap();
    let hangs = encoded(reply(400, [Act::Hang]), "br");
    let before = Instant::now();
    let judged = judge_within(&budget, hangs, everything).await;
    assert_eq!((judged.verdict, Instant::now()), (Verdict::Fine, before));
    let judged = judge_within(&budget, refused(), everything).await;
    assert_eq!(judged.verdict, Verdict::Fine);
    assert_eq!(relayed(judged).await, REFUSED_BROTLI);
    let plain = reply(400, [chunk(REFUSED)]);
    let judged = judge_within(&budget, plain, everything).await;
    assert_eq!(judged.verdict, OVERFLOW);
}

#[tokio::test(start_paused = true)]
async fn held_bytes_count_towards_the_budget_until_they_are_relayed() {
    let budget = BufferBudget::new(1_000);
    let part = "x".repeat(600);
    let held = || reply(400, [Act::Chunk(part.clone().into()), Act::Hang]);
    let before = Instant::now();
    let first = judge_within(&budget, held(), HoldPolicy::Everything).await;
    assert_eq!(Instant::now() - before, HELD_FOR);
    let before = Instant::now();
    let second = judge_within(&budget, held(), HoldPolicy::Everything).await;
    assert_eq!(Instant::now(), before, "the first reply takes the room");
    drop((first, second));
    assert_eq!(budget.reservation().grow_to(1_000), Ok(()));
}

/// Checks that a reply is released after its scripted acts, before the clock advances.
async fn check_let_go(holding: HoldPolicy, reply: Response<Script>) {
    let before = Instant::now();
    assert_eq!(judge(reply, holding).await.verdict, Verdict::Fine);
    assert_eq!(Instant::now(), before);
}

#[tokio::test(start_paused = true)]
async fn releases_a_reply_at_once_if_holding_it_is_not_needed() {
    let answer = r#"{"id":"a","object":"chat.completion","choices":[{"message":{"content":"H"#;
    let everything = HoldPolicy::Everything;
    check_let_go(everything, reply(200, [chunk(ROLE), chunk(CONTENT), Act::Hang])).await;
    check_let_go(everything, reply(200, [chunk(answer), Act::Hang])).await;
    check_let_go(everything, reply(429, [Act::Hang])).await;
    check_let_go(everything, reply(302, [Act::Hang])).await;
    check_let_go(HoldPolicy::Errors, reply(200, [Act::Hang])).await;
    check_let_go(HoldPolicy::Nothing, reply(400, [Act::Hang])).await;
    check_let_go(everything, encoded(reply(400, [Act::Hang]), "compress")).await;
    let mut announced = reply(400, [Act::Hang]);
    announced.body_mut().announced = Some(64 * 1024 + 1);
    check_let_go(everything, announced).await;
    let long = vec![b' '; 64 * 1024 + 1];
    check_let_go(everything, reply(400, [chunk(long), Act::Hang])).await;
}

#[tokio::test(start_paused = true)]
async fn recognises_a_non_api_reply_by_its_first_byte() {
    for first in ["<html>", "\x01\x00", "\x00\x00\x00\x18ftypmp42"] {
        let before = Instant::now();
        let reply = reply(200, [chunk(first), Act::Hang]);
        let judged = judge(reply, HoldPolicy::Everything).await;
        assert_eq!((judged.verdict, Instant::now()), (Verdict::Failed, before));
    }
}

#[tokio::test(start_paused = true)]
async fn errors_policy_still_judges_error_replies() {
    let judged = judge(reply(400, [chunk(REFUSED)]), HoldPolicy::Errors).await;
    assert_eq!(judged.verdict, OVERFLOW);
}

#[tokio::test(start_paused = true)]
async fn holds_stream_comments_for_ten_seconds_and_relays_them_all() {
    let second = || Act::Wait(Duration::from_secs(1));
    let acts = (0..20).flat_map(|_| [second(), chunk(COMMENT)]);
    let before = Instant::now();
    let judged = judge(reply(200, acts.chain([chunk(CONTENT)])), HoldPolicy::Everything).await;
    assert_eq!(before.elapsed(), Duration::from_secs(10));
    assert_eq!(judged.verdict, Verdict::Fine);
    let whole = format!("{}{CONTENT}", COMMENT.repeat(20));
    assert_eq!(relayed(judged).await, whole.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn an_overflow_within_ten_seconds_of_comments_is_seen() {
    let acts = [
        Act::Wait(Duration::from_secs(9)),
        chunk(COMMENT),
        chunk(format!("data: {REFUSED}\n\n")),
        Act::Hang,
    ];
    let judged = judge(reply(200, acts), HoldPolicy::Everything).await;
    assert_eq!(judged.verdict, OVERFLOW);
}

#[tokio::test(start_paused = true)]
async fn relays_a_failure_during_holding_at_its_position() {
    for status in [200, 400] {
        let acts = [chunk(ROLE), Act::Fail, chunk("never")];
        let judged = judge(reply(status, acts), HoldPolicy::Everything).await;
        assert_eq!((judged.verdict, judged.broke_off), (Verdict::Fine, true));
        let mut body = judged.response.into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), ROLE);
        assert_eq!(body.frame().await.unwrap().unwrap_err(), Broken);
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn relays_trailers_and_counts_held_bytes_in_the_size() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", HeaderValue::from_static("1"));
    let judged =
        judge(reply(400, [chunk(REFUSED), Act::Trailers(trailers.clone())]), HoldPolicy::Errors)
            .await;
    assert_eq!(judged.verdict, OVERFLOW);
    let body = judged.response.into_body();
    let bytes = u64::try_from(REFUSED.len()).unwrap();
    assert_eq!(body.size_hint().exact(), Some(bytes));
    assert!(!body.is_end_stream());
    let collected = body.collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), REFUSED);
}

#[tokio::test(start_paused = true)]
async fn partly_read_body_announces_its_remaining_size() {
    let mut script = reply(200, [chunk("012"), chunk("3456"), chunk("789")]).into_body();
    script.announced = Some(3);
    let mut held = PeekedBody::new(script);
    assert_eq!(held.read_ahead().await, ReadAhead::Chunk("012".into()));
    assert_eq!(held.read_ahead().await, ReadAhead::Chunk("3456".into()));
    // The script announces its third chunk alone, like a body that has already returned the others.
    assert_eq!((held.peeked_bytes(), held.size_hint().exact()), (7, Some(10)));
    assert_eq!(held.frame().await.unwrap().unwrap().into_data().unwrap(), "012");
    assert_eq!((held.peeked_bytes(), held.size_hint().exact()), (4, Some(7)));
    assert_eq!(held.read_ahead().await, ReadAhead::Chunk("789".into()));
    assert_eq!(held.read_ahead().await, ReadAhead::Ended);
    assert_eq!(held.size_hint().exact(), Some(7));
    assert_eq!(held.collect().await.unwrap().to_bytes(), "3456789");
}
