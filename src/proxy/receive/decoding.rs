//! Undoes the coding of a chat's body while it comes.

use bytes::Bytes;
use tokio::task::coop::consume_budget;

use super::super::budget::{Budget, Reservation};
use super::super::coding::{Decoder, Undecodable};
use super::buffer::Buffer;
use crate::limits::BODY_FIRST_BYTES;
use crate::metrics::Unread;

/// A body that is being decoded.
pub(super) struct Decoding {
    decoder: Decoder,
    plain: Buffer,
    /// The decoder's own part of the budget, until it is done.
    _room: Reservation,
}

impl Decoding {
    /// The decoding of a body that reads as `limit` bytes at the most.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn new(decoder: Decoder, budget: &Budget, limit: u64) -> Result<Self, Unread> {
        let mut room = budget.reservation();
        room.grow_to(decoder.room()).map_err(|_| Unread::Crowded)?;
        let mut plain = Buffer::new(budget, limit);
        plain.grow_to(limit.min(BODY_FIRST_BYTES as u64))?;
        Ok(Self {
            decoder: decoder.within(limit),
            plain,
            _room: room,
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
