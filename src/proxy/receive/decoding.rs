//! Undoes the coding of a chat's body while it comes.

use bytes::Bytes;
use tokio::task::coop::consume_budget;

use super::super::budget::{Budget, Reservation};
use super::super::coding::{Decoder, Undecodable};
use super::buffer::Buffer;
use crate::metrics::Unread;

/// A body that is being decoded.
pub(super) struct Decoding {
    decoder: Decoder,
    plain: Buffer,
}

impl Decoding {
    /// The decoding of a body that reads as `limit` bytes at the most.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn new(decoder: Decoder, budget: &Budget, limit: u64) -> Result<Self, Unread> {
        let decoder = decoder.within(limit).charged_to(budget.reservation());
        Ok(Self {
            decoder: decoder.map_err(|_| Unread::Crowded)?,
            plain: Buffer::new(budget, limit, None),
        })
    }

    /// Decodes the next chunk. It lets others run in between: a chunk may inflate to much.
    ///
    /// # Errors
    /// It is corrupt or beyond a bound.
    pub(super) async fn push(&mut self, mut chunk: &[u8]) -> Result<(), Unread> {
        while let Some(piece) = self.decoder.step(&mut chunk).map_err(unread)? {
            self.plain.append(piece)?;
            consume_budget().await;
        }
        Ok(())
    }

    /// What the body says, with its part of the budget.
    ///
    /// # Errors
    /// It broke off.
    pub(super) fn end(self) -> Result<(Bytes, Reservation), Unread> {
        if self.decoder.is_ended() {
            Ok(self.plain.into_parts())
        } else {
            Err(Unread::Corrupt)
        }
    }
}

fn unread(why: Undecodable) -> Unread {
    match why {
        Undecodable::Bomb => Unread::Bomb,
        Undecodable::Corrupt => Unread::Corrupt,
        Undecodable::Large => Unread::Large,
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_ENCODING;
    use http::{HeaderMap, HeaderValue};

    use super::*;

    /// Decodes zstd under these bounds.
    async fn check(encoded: &[u8], limit: u64, budget: &Budget) -> Result<Bytes, Unread> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
        let mut decoding = Decoding::new(Decoder::of(&headers).unwrap(), budget, limit)?;
        for chunk in encoded.chunks(1_000) {
            decoding.push(chunk).await?;
        }
        decoding.end().map(|(text, _)| text)
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 3).unwrap()
    }

    #[tokio::test]
    async fn a_body_reads_as_it_was_before_it_was_encoded() {
        let budget = Budget::new(64 << 20);
        let got = check(&zstd(b"{}"), 10, &budget).await;
        assert_eq!(got.as_deref(), Ok(&b"{}"[..]));
    }

    #[tokio::test]
    async fn each_reason_not_to_read_on_has_its_name() {
        let budget = Budget::new(64 << 20);
        let limit = 32 << 20;
        let spaces = zstd(&vec![b' '; 1 << 20]);
        assert_eq!(check(&spaces, limit, &budget).await, Err(Unread::Bomb));
        assert_eq!(check(b"{}{}{}", limit, &budget).await, Err(Unread::Corrupt));
        let half = &zstd(b"{\"a\":1}")[..8];
        assert_eq!(check(half, limit, &budget).await, Err(Unread::Corrupt));
        assert_eq!(
            check(&zstd(b"0123456789"), 9, &budget).await,
            Err(Unread::Large)
        );
    }

    #[tokio::test]
    async fn the_text_and_its_decoder_take_of_the_budget_and_give_back() {
        assert_eq!(
            check(&zstd(b"{}"), 10, &Budget::new(1 << 20)).await,
            Err(Unread::Crowded),
            "no room for a window"
        );
        let budget = Budget::new(9 << 20);
        let sixty = vec![b' '; 60_000];
        for _ in 0..100 {
            assert!(check(&zstd(&sixty), 1 << 20, &budget).await.is_ok());
        }
        assert_eq!(budget.reservation().grow_to(9 << 20), Ok(()));
    }
}
