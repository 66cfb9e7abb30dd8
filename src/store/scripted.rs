//! A far tier for tests, which fails and hangs as it is told.

use std::time::Duration;

use super::far::{Entry, Lease, LeaseToken, Renewed, Unavailable, Winner, Write};
use crate::rewrite::chain::RecordKey;

pub(crate) struct Scripted;

const TOLD: Unavailable = Unavailable {
    why: "told to fail",
};

impl Scripted {
    pub(super) async fn read(&self, _: &[RecordKey]) -> Result<Vec<Option<Entry>>, Unavailable> {
        Err(TOLD)
    }

    pub(super) async fn write(&self, _: &[Write]) -> Result<Vec<Winner>, Unavailable> {
        Err(TOLD)
    }

    pub(super) async fn lease(
        &self,
        _: RecordKey,
        _: LeaseToken,
        _: Duration,
    ) -> Result<Lease, Unavailable> {
        Err(TOLD)
    }

    pub(super) async fn renew(
        &self,
        _: RecordKey,
        _: LeaseToken,
        _: Duration,
    ) -> Result<Renewed, Unavailable> {
        Err(TOLD)
    }

    pub(super) async fn release(&self, _: RecordKey, _: LeaseToken) -> Result<(), Unavailable> {
        Err(TOLD)
    }
}
