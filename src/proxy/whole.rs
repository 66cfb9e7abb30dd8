//! A chat's body, read whole: as it came and as it reads, and what is sent in its place.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::budget::Reservation;
use super::headers::BodyFraming;
use crate::rewrite::splice::{Piece, Splice};
use crate::upstream::{ChunkedBytes, RequestBody, TransferMeter};

/// What is kept of a body between two cuts is sent from where it stands if it has so many bytes. To
/// copy fewer is cheaper than to send them apart.
const MIN_SHARED_BYTES: usize = 16 * 1024;

/// A body that was read to its end.
pub(super) struct BufferedBody {
    text: Bytes,
    /// What came, where that is another thing than the text.
    encoded: Option<Bytes>,
    /// Its part of the budget, for as long as anything of it is held.
    reservation: Option<Arc<Reservation>>,
}

/// A body as it is sent, with the framing that goes with it.
pub(super) struct FramedBody {
    pub(super) body: ChunkedBytes,
    pub(super) framing: BodyFraming,
}

impl FramedBody {
    /// The same on its way to the upstream.
    pub(super) fn into_request_body(
        self,
        meter: &Arc<TransferMeter>,
    ) -> (RequestBody, BodyFraming) {
        (RequestBody::from_bytes(self.body, meter), self.framing)
    }
}

impl BufferedBody {
    /// A body that came as it reads.
    pub(super) fn plain(text: Bytes) -> Self {
        Self {
            text,
            encoded: None,
            reservation: None,
        }
    }

    /// A body that came as `encoded` and reads `text`.
    pub(super) fn decoded(text: Bytes, encoded: Bytes) -> Self {
        Self {
            text,
            encoded: Some(encoded),
            reservation: None,
        }
    }

    /// The same, which takes that part of the budget.
    pub(super) fn with_reservation(self, reservation: Reservation) -> Self {
        let room = Some(Arc::new(reservation));
        Self {
            reservation: room,
            ..self
        }
    }

    /// Its part of the budget, for who holds its text for longer than the request.
    pub(super) fn reservation(&self) -> Option<Arc<Reservation>> {
        self.reservation.clone()
    }

    /// What it says.
    pub(super) fn text(&self) -> &Bytes {
        &self.text
    }

    /// The bytes that came, under the coding that they came in.
    pub(super) fn original(&self) -> FramedBody {
        let bytes = self.encoded.as_ref().unwrap_or(&self.text).clone();
        let hop = BodyFraming::Length(bytes.len());
        let body = ChunkedBytes::from(bytes);
        FramedBody { body, framing: hop }
    }

    /// The same on its way, with its part of the budget.
    pub(super) fn into_request_body(
        self,
        meter: &Arc<TransferMeter>,
    ) -> (RequestBody, BodyFraming, Option<Reservation>) {
        let (body, hop) = self.original().into_request_body(meter);
        (body, hop, self.reservation.and_then(Arc::into_inner))
    }

    /// Its text with these replacements, which are of this very text. It goes plain: the coding that
    /// came was the client's choice for its own bytes, and not every upstream that is sent none reads
    /// one.
    pub(super) fn spliced(&self, splice: &Splice<'_>) -> FramedBody {
        let body = self.pieces(splice);
        let hop = if self.encoded.is_some() {
            BodyFraming::DecodedLength(body.len())
        } else {
            BodyFraming::Length(body.len())
        };
        FramedBody { body, framing: hop }
    }

    /// Long runs as they stand in the one buffer, and copies of what is between them.
    ///
    /// # Panics
    /// Those replacements are another text's.
    fn pieces(&self, splice: &Splice<'_>) -> ChunkedBytes {
        let stands = |piece: &Piece<'_>| match piece {
            Piece::Original(text) => text.len() >= MIN_SHARED_BYTES,
            Piece::Inserted(_) => false,
        };
        let copied = splice.pieces().filter(|piece| !stands(piece));
        let copied = copied.map(|piece| piece.text().len()).sum();
        let mut copied = BytesMut::with_capacity(copied);
        let mut pieces = ChunkedBytes::default();
        for piece in splice.pieces() {
            let bytes = piece.text().as_bytes();
            if stands(&piece) {
                pieces.push(copied.split().freeze());
                pieces.push(self.text.slice_ref(bytes));
            } else {
                copied.extend_from_slice(bytes);
            }
        }
        pieces.push(copied.freeze());
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::budget::BufferBudget;
    use crate::rewrite::chat_completions::read;
    use crate::rewrite::plan::{Replacement, Replacements};

    /// A body whose only result is cut, with so many bytes before it and behind it.
    fn check(before: usize, behind: usize, expect: usize) {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"{}"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"c","content":"a long result"}}],"user":"{}"}}"#,
            "b".repeat(before),
            "c".repeat(behind),
        );
        let whole = BufferedBody::plain(Bytes::from(body));
        let conversation = read(whole.text()).unwrap();
        let cut = Replacement::Result {
            at: 2,
            text: "-".into(),
        };
        let splice = Splice::new(&conversation, &Replacements::new(vec![cut])).unwrap();
        let sending = whole.spliced(&splice);
        let here = whole.text().as_ptr_range();
        let stand = |chunk: &&[u8]| here.contains(&chunk.as_ptr());
        assert_eq!(sending.body.chunks().filter(stand).count(), expect);
        assert_eq!(splice.corrupted_bytes(sending.body.chunks()), 0);
        assert_eq!(sending.body.len(), splice.apply().len());
        assert_eq!(sending.body.into_bytes(), splice.apply());
    }

    #[test]
    fn its_part_of_the_budget_is_taken_as_long_as_somebody_holds_it() {
        let budget = BufferBudget::new(10);
        let mut reservation = budget.reservation();
        assert_eq!(reservation.grow_to(10), Ok(()));
        let whole =
            BufferedBody::plain(Bytes::from_static(b"0123456789")).with_reservation(reservation);
        let room = whole.reservation();
        drop(whole);
        assert!(budget.reservation().grow_to(1).is_err());
        drop(room);
        assert_eq!(budget.reservation().grow_to(10), Ok(()));
    }

    #[test]
    fn long_runs_are_sent_from_where_they_stand_and_short_ones_together() {
        check(10, 10, 0);
        check(MIN_SHARED_BYTES, 10, 1);
        check(10, MIN_SHARED_BYTES, 1);
        check(MIN_SHARED_BYTES, MIN_SHARED_BYTES, 2);
    }
}
