//! A chat's body, read whole: its original bytes, its decoded text, and the bodies built from them.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::body::budget::Reservation;
use crate::body::chunked_bytes::ChunkedBytes;
use crate::body::request_body::{RequestBody, TransferMeter};
use crate::request::headers::BodyFraming;
use longhaul_core::planning::splice::{Piece, Splice};

/// Minimum bytes of a retained run that is sent from the original buffer. Copying shorter runs is
/// cheaper than sending them separately.
const MIN_SHARED_BYTES: usize = 16 * 1024;

pub(crate) struct BufferedBody {
    text: Bytes,
    /// Original bytes, if they differ from the text.
    encoded: Option<Bytes>,
    /// Budget reservation, held for as long as any part of the body is.
    reservation: Option<Arc<Reservation>>,
}

pub(crate) struct FramedBody {
    pub(crate) body: ChunkedBytes,
    pub(crate) framing: BodyFraming,
}

impl FramedBody {
    pub(crate) fn into_request_body(
        self,
        meter: &Arc<TransferMeter>,
    ) -> (RequestBody, BodyFraming) {
        (RequestBody::from_bytes(self.body, meter), self.framing)
    }
}

impl BufferedBody {
    /// Wraps a body without a content coding.
    pub(crate) fn plain(text: Bytes) -> Self {
        Self { text, encoded: None, reservation: None }
    }

    /// Wraps a body that was received as `encoded` and decodes to `text`.
    pub(crate) fn decoded(text: Bytes, encoded: Bytes) -> Self {
        Self { text, encoded: Some(encoded), reservation: None }
    }

    /// Returns a body of another text that is framed like this one.
    pub(crate) fn with_text(&self, text: Bytes) -> Self {
        Self { text, encoded: self.encoded.clone(), reservation: None }
    }

    pub(crate) fn with_reservation(self, reservation: Reservation) -> Self {
        let room = Some(Arc::new(reservation));
        Self { reservation: room, ..self }
    }

    /// Returns the budget reservation, for holders of the text that outlive the request.
    pub(crate) fn reservation(&self) -> Option<Arc<Reservation>> {
        self.reservation.clone()
    }

    pub(crate) fn text(&self) -> &Bytes {
        &self.text
    }

    /// Returns the original bytes, in their original coding.
    pub(crate) fn original(&self) -> FramedBody {
        let bytes = self.encoded.as_ref().unwrap_or(&self.text).clone();
        let framing = BodyFraming::Length(bytes.len());
        let body = ChunkedBytes::from(bytes);
        FramedBody { body, framing }
    }

    /// Converts the original bytes for sending, with their framing and budget reservation.
    pub(crate) fn into_request_body(
        self,
        meter: &Arc<TransferMeter>,
    ) -> (RequestBody, BodyFraming, Option<Reservation>) {
        let (body, framing) = self.original().into_request_body(meter);
        (body, framing, self.reservation.and_then(Arc::into_inner))
    }

    /// Applies `splice`, which must be of this text. The result has no content coding: the client
    /// chose the coding for its own bytes, and not every upstream accepts one.
    pub(crate) fn spliced(&self, splice: &Splice<'_>) -> FramedBody {
        let body = self.pieces(splice);
        let framing = if self.encoded.is_some() {
            BodyFraming::DecodedLength(body.len())
        } else {
            BodyFraming::Length(body.len())
        };
        FramedBody { body, framing }
    }

    /// Collects long retained runs as slices of the original buffer, and copies everything between
    /// them.
    ///
    /// # Panics
    /// The splice is of another text.
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
    use crate::body::budget::BufferBudget;
    use longhaul_core::dialect::chat_completions::read;
    use longhaul_core::planning::plan::Replacement;

    /// Checks a body whose only result, with `before` bytes ahead and `behind` bytes after it, is
    /// replaced.
    fn check(before: usize, behind: usize, expect: usize) {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"{}"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"c","content":"a long result"}}],"user":"{}"}}"#,
            "b".repeat(before),
            "c".repeat(behind),
        );
        let whole = BufferedBody::plain(Bytes::from(body));
        let conversation = read(whole.text()).unwrap();
        let cut = Replacement::Result { at: 2, text: "-".into(), marked: false };
        let splice = Splice::new(&conversation, &[cut]).unwrap();
        let sending = whole.spliced(&splice);
        let here = whole.text().as_ptr_range();
        let stand = |chunk: &&[u8]| here.contains(&chunk.as_ptr());
        assert_eq!(sending.body.chunks().filter(stand).count(), expect);
        assert_eq!(splice.corrupted_bytes(sending.body.chunks()), 0);
        assert_eq!(sending.body.len(), splice.apply().len());
        assert_eq!(sending.body.into_bytes(), splice.apply());
    }

    #[test]
    fn budget_reservation_lasts_as_long_as_any_holder() {
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
    fn sends_long_runs_from_the_original_buffer_and_copies_short_ones() {
        check(10, 10, 0);
        check(MIN_SHARED_BYTES, 10, 1);
        check(10, MIN_SHARED_BYTES, 1);
        check(MIN_SHARED_BYTES, MIN_SHARED_BYTES, 2);
    }
}
