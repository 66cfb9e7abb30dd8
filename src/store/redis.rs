//! Entries at a Redis or Valkey server that replicas share.

use std::time::Duration;

use super::far::{Entry, Lease, LeaseToken, Listed, Renewed, Unavailable, Winner, Write};
use crate::config::{RedisUrl, StoreConfig};
use crate::error::Problem;
use crate::rewrite::chain::{RecordKey, ScopeTag};

const NOT_BUILT: Unavailable = Unavailable {
    why: "this build speaks no Redis",
};

/// Entries at a server. Connects when it is first asked, and again by itself.
pub(crate) struct Redis;

impl Redis {
    /// The server at `url`, not connected yet.
    ///
    /// # Errors
    /// What is wrong with the settings, without the password.
    pub(crate) fn new(_url: &RedisUrl, _config: &StoreConfig) -> Result<Self, Problem> {
        Ok(Self)
    }

    pub(super) async fn read(&self, _: &[RecordKey]) -> Result<Vec<Option<Entry>>, Unavailable> {
        Err(NOT_BUILT)
    }

    pub(super) async fn write(&self, _: &[Write]) -> Result<Vec<Winner>, Unavailable> {
        Err(NOT_BUILT)
    }

    pub(super) async fn lease(
        &self,
        _: RecordKey,
        _: LeaseToken,
        _: Duration,
    ) -> Result<Lease, Unavailable> {
        Err(NOT_BUILT)
    }

    pub(super) async fn renew(
        &self,
        _: RecordKey,
        _: LeaseToken,
        _: Duration,
    ) -> Result<Renewed, Unavailable> {
        Err(NOT_BUILT)
    }

    pub(super) async fn release(&self, _: RecordKey, _: LeaseToken) -> Result<(), Unavailable> {
        Err(NOT_BUILT)
    }

    pub(super) async fn each(
        &self,
        _: Option<ScopeTag>,
        _: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<(), Unavailable> {
        Err(NOT_BUILT)
    }

    pub(super) async fn purge(&self, _: Option<ScopeTag>) -> Result<u64, Unavailable> {
        Err(NOT_BUILT)
    }
}
