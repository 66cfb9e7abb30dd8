//! Holds a reply back just as far as it takes to know what it is.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use tokio::time::timeout;

use super::budget::BufferBudget;
use super::coding::Decoder;
use crate::rewrite::overflow::{ClassifierRules, ClassifierStep, ReplyClassifier, Verdict};
use crate::upstream::{PeekedBody, ReadAhead};

/// The most that is held of one reply, as it comes over the wire. Errors are small, and the head
/// of a stream without content is smaller.
pub(super) const HELD_BYTES: usize = 64 * 1024;

/// The longest that a reply is held. A server that sends nothing but comments for so long is
/// prefilling, and the client must see that it lives.
pub(super) const HELD_FOR: Duration = Duration::from_secs(10);

/// How far a reply may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldPolicy {
    /// Error statuses only: the request is proven to fit, so a 200 is an answer.
    Errors,
    /// Error statuses, and what comes with a 200 until it is seen to be an answer.
    Everything,
    /// Nothing: whatever it is, it is relayed.
    Nothing,
}

/// A reply and what it is. Whatever the verdict, the reply is whole.
pub(super) struct JudgedReply<B: Body<Data = Bytes>> {
    /// The reply, byte for byte as it came.
    pub(super) response: Response<PeekedBody<B>>,
    /// What it is. One that could not be judged is [`Verdict::Fine`]: longer than [`HELD_BYTES`],
    /// slower than [`HELD_FOR`], broken off, encoded in a way that is not read here, or without room
    /// for its decoder.
    pub(super) verdict: Verdict,
    /// Whether it broke off before it could be told: then it shows nothing of what the model holds.
    pub(super) broke_off: bool,
}

/// Judges a reply; `budget` has the room for its decoder. It never waits for more than the verdict
/// takes.
pub(super) async fn judge<B>(
    response: Response<B>,
    holding: HoldPolicy,
    rules: &ClassifierRules,
    budget: &BufferBudget,
) -> JudgedReply<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (parts, body) = response.into_parts();
    let mut held = PeekedBody::new(body);
    let status = parts.status.as_u16();
    let passes = match holding {
        HoldPolicy::Errors => status < 300,
        HoldPolicy::Everything => false,
        HoldPolicy::Nothing => true,
    };
    let verdict = if passes {
        Some(Verdict::Fine)
    } else {
        let decoder = || {
            Decoder::from_headers(&parts.headers)?
                .charged_to(budget.reservation())
                .ok()
        };
        match ReplyClassifier::new(status, rules).zip(decoder()) {
            Some((reading, decoder)) if may_be_held(&held) => {
                // On the deadline the future is dropped between two frames: nothing is lost.
                timeout(HELD_FOR, read(&mut held, reading, decoder))
                    .await
                    .unwrap_or(Some(Verdict::Fine))
            }
            Some(_) | None => Some(Verdict::Fine),
        }
    };
    JudgedReply {
        response: Response::from_parts(parts, held),
        verdict: verdict.unwrap_or(Verdict::Fine),
        broke_off: verdict.is_none(),
    }
}

/// A body that announces more than is ever held is not held at all.
fn may_be_held(body: &impl Body) -> bool {
    usize::try_from(body.size_hint().lower()).is_ok_and(|bytes| bytes <= HELD_BYTES)
}

/// `None` where it breaks off.
async fn read<B>(
    held: &mut PeekedBody<B>,
    mut reading: ReplyClassifier<'_>,
    mut decoder: Decoder,
) -> Option<Verdict>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        match held.read_ahead().await {
            ReadAhead::Broken => return None,
            ReadAhead::Ended => return Some(reading.finish()),
            ReadAhead::Chunk(_) if held.peeked_bytes() > HELD_BYTES => return Some(Verdict::Fine),
            ReadAhead::Chunk(chunk) => {
                let Some(plain) = decoder.decode_chunk(&chunk) else {
                    return Some(Verdict::Fine);
                };
                match reading.push(&plain) {
                    ClassifierStep::Hold => {}
                    ClassifierStep::Settled(verdict) => return Some(verdict),
                }
            }
        }
    }
}
