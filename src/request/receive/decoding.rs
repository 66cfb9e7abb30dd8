//! Decodes a chat's body while it arrives.

use bytes::Bytes;
use tokio::task::coop::consume_budget;

use crate::body::budget::{BufferBudget, Reservation};
use crate::body::coding::{DecodeError, Decoder};
use crate::metrics::UnreadReason;
use crate::request::receive::buffer::BodyBuffer;

/// A body that is being decoded.
pub(super) struct BodyDecoding {
    decoder: Decoder,
    plain: BodyBuffer,
}

impl BodyDecoding {
    /// Creates a decoder for a body of at most `limit` decoded bytes. Fails if the budget has no
    /// space for the decoder.
    pub(super) fn new(
        decoder: Decoder,
        budget: &BufferBudget,
        limit: u64,
    ) -> Result<Self, UnreadReason> {
        let decoder = decoder
            .with_max_bytes(limit)
            .charged_to(budget.reservation());
        Ok(Self {
            decoder: decoder.map_err(UnreadReason::from)?,
            plain: BodyBuffer::new(budget, limit, None),
        })
    }

    /// Decodes the next chunk. Yields to other tasks in between, because a chunk may inflate to
    /// many bytes. Fails if the chunk is corrupt or exceeds a limit.
    pub(super) async fn push(&mut self, mut chunk: &[u8]) -> Result<(), UnreadReason> {
        while let Some(piece) = self.decoder.decode_step(&mut chunk).map_err(unread)? {
            self.plain.append(piece)?;
            consume_budget().await;
        }
        Ok(())
    }

    /// Returns the decoded body and its budget reservation. Fails if the encoded body ended early.
    pub(super) fn end(mut self) -> Result<(Bytes, Reservation), UnreadReason> {
        if self.decoder.is_ended() {
            Ok(self.plain.into_parts())
        } else {
            Err(UnreadReason::Corrupt)
        }
    }
}

fn unread(why: DecodeError) -> UnreadReason {
    match why {
        DecodeError::Bomb => UnreadReason::Bomb,
        DecodeError::Corrupt => UnreadReason::Corrupt,
        DecodeError::TooLarge => UnreadReason::Large,
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_ENCODING;
    use http::{HeaderMap, HeaderValue};

    use super::*;

    /// Decodes zstd within these limits.
    async fn check(
        encoded: &[u8],
        limit: u64,
        budget: &BufferBudget,
    ) -> Result<Bytes, UnreadReason> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
        let mut decoding =
            BodyDecoding::new(Decoder::from_headers(&headers).unwrap(), budget, limit)?;
        for chunk in encoded.chunks(1_000) {
            decoding.push(chunk).await?;
        }
        decoding.end().map(|(text, _)| text)
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 3).unwrap()
    }

    #[tokio::test]
    async fn reads_an_encoded_body_decoded() {
        let budget = BufferBudget::new(64 << 20);
        let got = check(&zstd(b"{}"), 10, &budget).await;
        assert_eq!(got.as_deref(), Ok(&b"{}"[..]));
    }

    #[tokio::test]
    async fn reports_each_reason_for_not_reading_a_body() {
        let budget = BufferBudget::new(64 << 20);
        let limit = 32 << 20;
        let spaces = zstd(&vec![b' '; 1 << 20]);
        assert_eq!(
            check(&spaces, limit, &budget).await,
            Err(UnreadReason::Bomb)
        );
        assert_eq!(
            check(b"{}{}{}", limit, &budget).await,
            Err(UnreadReason::Corrupt)
        );
        let half = &zstd(b"{\"a\":1}")[..8];
        assert_eq!(
            check(half, limit, &budget).await,
            Err(UnreadReason::Corrupt)
        );
        assert_eq!(
            check(&zstd(b"0123456789"), 9, &budget).await,
            Err(UnreadReason::Large)
        );
    }

    #[tokio::test]
    async fn decoder_reserves_budget_and_releases_it() {
        assert_eq!(
            check(&zstd(b"{}"), 10, &BufferBudget::new(1 << 20)).await,
            Err(UnreadReason::Crowded),
            "no space for a window"
        );
        let budget = BufferBudget::new(9 << 20);
        let sixty = vec![b' '; 60_000];
        for _ in 0..100 {
            assert!(check(&zstd(&sixty), 1 << 20, &budget).await.is_ok());
        }
        assert_eq!(budget.reservation().grow_to(9 << 20), Ok(()));
    }
}
