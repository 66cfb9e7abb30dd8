//! Removal of entries. The library does not overwrite the pages that it frees, so the text of
//! removed entries would stay in the file. The file is therefore replaced with a copy of the other
//! entries.

use redb::{Database, ReadableDatabase, ReadableTable as _, ReadableTableMetadata as _};

use super::table::{METADATA, RECORDS};
use longhaul_core::units::scope::ScopeTag;

pub(super) fn count_entries(database: &Database) -> Result<u64, redb::Error> {
    let transaction = database.begin_read()?;
    Ok(transaction.open_table(METADATA)?.len()?)
}

/// Copies every entry except those of one scope. Returns how many it left out.
pub(super) fn copy_other_scopes(
    from: &Database,
    to: &Database,
    scope: ScopeTag,
) -> Result<u64, redb::Error> {
    let reading = from.begin_read()?;
    let writing = to.begin_write()?;
    for table in [METADATA, RECORDS] {
        let mut copy = writing.open_table(table)?;
        for found in reading.open_table(table)?.iter()? {
            let (key, value) = found?;
            if !key.value().starts_with(&scope.0) {
                copy.insert(key.value(), value.value())?;
            }
        }
    }
    let left = writing.open_table(METADATA)?.len()?;
    writing.commit()?;
    Ok(count_entries(from)?.saturating_sub(left))
}
