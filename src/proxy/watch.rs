//! Holds a reply back just as far as it takes to know what it is.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use tokio::time::timeout;

use super::budget::Budget;
use super::coding::Decoder;
use crate::rewrite::overflow::{Reading, Rules, Step, Verdict};
use crate::upstream::{Ahead, Held};

/// The most that is held of one reply, as it comes over the wire. Errors are small, and the head
/// of a stream without content is smaller.
pub(super) const HELD_BYTES: usize = 64 * 1024;

/// The longest that a reply is held. A server that sends nothing but comments for so long is
/// prefilling, and the client must see that it lives.
pub(super) const HELD_FOR: Duration = Duration::from_secs(10);

/// How far a reply may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// Error statuses only: the request is proven to fit, so a 200 is an answer.
    Errors,
    /// Error statuses, and what comes with a 200 until it is seen to be an answer.
    Everything,
    /// Nothing: whatever it is, it is relayed.
    Nothing,
}

/// A reply and what it is. Whatever the verdict, the reply is whole.
pub(super) struct Judged<B: Body<Data = Bytes>> {
    /// The reply, byte for byte as it came.
    pub(super) response: Response<Held<B>>,
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
    holding: Holding,
    rules: &Rules,
    budget: &Budget,
) -> Judged<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (parts, body) = response.into_parts();
    let mut held = Held::new(body);
    let status = parts.status.as_u16();
    let passes = match holding {
        Holding::Errors => status < 300,
        Holding::Everything => false,
        Holding::Nothing => true,
    };
    let verdict = if passes {
        Some(Verdict::Fine)
    } else {
        let decoder = || {
            Decoder::of(&parts.headers)?
                .charged_to(budget.reservation())
                .ok()
        };
        match Reading::new(status, rules).zip(decoder()) {
            Some((reading, decoder)) if may_be_held(&held) => {
                // On the deadline the future is dropped between two frames: nothing is lost.
                timeout(HELD_FOR, read(&mut held, reading, decoder))
                    .await
                    .unwrap_or(Some(Verdict::Fine))
            }
            Some(_) | None => Some(Verdict::Fine),
        }
    };
    Judged {
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
    held: &mut Held<B>,
    mut reading: Reading<'_>,
    mut decoder: Decoder,
) -> Option<Verdict>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        match held.read_ahead().await {
            Ahead::Broken => return None,
            Ahead::Ended => return Some(reading.end()),
            Ahead::Chunk(_) if held.held_bytes() > HELD_BYTES => return Some(Verdict::Fine),
            Ahead::Chunk(chunk) => {
                let Some(plain) = decoder.next(&chunk) else {
                    return Some(Verdict::Fine);
                };
                match reading.push(&plain) {
                    Step::Hold => {}
                    Step::Settled(verdict) => return Some(verdict),
                }
            }
        }
    }
}
