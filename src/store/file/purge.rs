//! Removal of entries. The library does not overwrite the pages that it frees, so the text of
//! removed entries would stay in the file. The file is therefore replaced with a copy of the other
//! entries.

use redb::{Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _};

use super::table::{METADATA, RECORDS};
use longhaul_core::units::scope::ScopeTag;

/// Copies every entry except those of one scope; without a scope, copies none. Returns how many it
/// left out.
pub(super) fn copy_other_scopes(
    from: &Database,
    to: &Database,
    scope: Option<ScopeTag>,
) -> Result<u64, redb::Error> {
    let reading = from.begin_read()?;
    let writing = to.begin_write()?;
    for table in [METADATA, RECORDS] {
        let mut copy = writing.open_table(table)?;
        for found in reading.open_table(table)?.iter()? {
            let (key, value) = found?;
            if scope.is_some_and(|scope| !key.value().starts_with(&scope.0)) {
                copy.insert(key.value(), value.value())?;
            }
        }
    }
    let before = reading.open_table(METADATA)?.len()?;
    let left = writing.open_table(METADATA)?.len()?;
    writing.commit()?;
    Ok(before.saturating_sub(left))
}
