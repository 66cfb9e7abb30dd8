//! Entries in a file of this process alone.

use super::far::{Entry, Listed, Unavailable, Winner, Write};
use crate::rewrite::chain::{RecordKey, ScopeTag};

/// The file, and the thread that writes it.
pub(crate) struct File;

const CLOSED: Unavailable = Unavailable {
    why: "the file is closed",
};

impl File {
    pub(super) async fn read(&self, _: &[RecordKey]) -> Result<Vec<Option<Entry>>, Unavailable> {
        Err(CLOSED)
    }

    pub(super) async fn write(&self, _: &[Write]) -> Result<Vec<Winner>, Unavailable> {
        Err(CLOSED)
    }

    pub(super) async fn each(
        &self,
        _: Option<ScopeTag>,
        _: &mut (dyn FnMut(Listed) + Send),
    ) -> Result<(), Unavailable> {
        Err(CLOSED)
    }

    pub(super) async fn purge(&self, _: Option<ScopeTag>) -> Result<u64, Unavailable> {
        Err(CLOSED)
    }
}
