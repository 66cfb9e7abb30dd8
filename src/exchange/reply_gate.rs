//! Holds a reply back only until its verdict is known.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use tokio::time::timeout;

use crate::body::budget::BufferBudget;
use crate::body::coding::Decoder;
use crate::body::peeked_body::{PeekedBody, ReadAhead};
use longhaul_core::overflow::{ClassifierStep, ReplyClassifier, Verdict};

/// Maximum time a reply is held. A server that sends only comments for this long is prefilling, and
/// the client must see that the connection is alive.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(10);

/// Kinds of replies that may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldPolicy {
    /// Error statuses only: the request is proven to fit, so a 200 is a successful reply.
    Errors,
    /// Error statuses, and 200 replies until they prove successful.
    Everything,
    /// No replies: every reply is relayed at once.
    Nothing,
}

impl HoldPolicy {
    /// Whether a reply with this status is held.
    pub(crate) fn holds(self, status: u16) -> bool {
        match self {
            Self::Errors => status >= 300,
            Self::Everything => true,
            Self::Nothing => false,
        }
    }
}

/// A reply and its verdict. The reply is complete, whatever the verdict.
pub(crate) struct JudgedReply<B: Body<Data = Bytes>> {
    /// The reply, byte for byte as received.
    pub(crate) response: Response<PeekedBody<B>>,
    /// The verdict. [`Verdict::Fine`] also covers replies that could not be judged:
    ///
    /// - longer than the dialect's limit or slower than [`HELD_FOR`];
    /// - ended early;
    /// - encoded in an unsupported coding;
    /// - no space in the budget for the held bytes or the decoder.
    pub(crate) verdict: Verdict,
    /// Whether the reply ended before its verdict was known. Such a reply proves nothing about the
    /// window.
    pub(crate) broke_off: bool,
}

/// Judges a reply, waiting no longer than the verdict takes. `classifier` returns the classifier for a
/// status. `budget` accounts for the held bytes and the decoder.
pub(crate) async fn judge<'c, B>(
    response: Response<B>,
    holding: HoldPolicy,
    classifier: impl FnOnce(u16) -> Option<ReplyClassifier<'c>>,
    budget: &BufferBudget,
) -> JudgedReply<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (parts, body) = response.into_parts();
    let mut held = PeekedBody::new(body).charged_to(budget.reservation());
    let status = parts.status.as_u16();
    let decoder = || Decoder::from_headers(&parts.headers)?.charged_to(budget.reservation()).ok();
    let reading = holding.holds(status).then(|| classifier(status).zip(decoder())).flatten();
    let verdict = match reading {
        // A body that announces more is not held at all.
        Some((reading, decoder)) if held.size_hint().lower() <= reading.held_bytes() as u64 => {
            // A timeout drops the future between two frames, so no bytes are lost.
            let judged = timeout(HELD_FOR, pin!(read(&mut held, reading, decoder))).await;
            judged.unwrap_or(Some(Verdict::Fine))
        }
        Some(_) | None => Some(Verdict::Fine),
    };
    JudgedReply {
        response: Response::from_parts(parts, held),
        verdict: verdict.unwrap_or(Verdict::Fine),
        broke_off: verdict.is_none(),
    }
}

/// Reads ahead until the verdict is known. Returns `None` if the body ends early.
async fn read<B>(
    held: &mut PeekedBody<B>,
    mut reading: ReplyClassifier<'_>,
    mut decoder: Decoder,
) -> Option<Verdict>
where
    B: Body<Data = Bytes> + Unpin,
{
    let limit = reading.held_bytes();
    loop {
        match held.read_ahead().await {
            ReadAhead::Broken => return None,
            ReadAhead::Ended => return Some(reading.finish()),
            ReadAhead::Chunk(_)
                if held.peeked_bytes() > limit || held.reserve_peeked().is_err() =>
            {
                return Some(Verdict::Fine);
            }
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
