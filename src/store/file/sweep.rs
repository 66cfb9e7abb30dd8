//! What goes when the file has become too large, or was not used for too long.

use std::collections::BTreeMap;

use redb::{Database, ReadableDatabase, ReadableTable};

use super::mark::Mark;
use super::table::{MARKS, RECORDS, now};

/// So much of what may stand in the file is left by a sweep that makes room, in hundredths: the next
/// one is not due at once.
const LEFT_PERCENT: u64 = 90;

/// What bounds the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of entries.
    pub(super) bytes: u64,
    /// Seconds from an entry's last use.
    pub(super) idle: u64,
}

impl Bounds {
    /// Entries that were last used before this are gone, in seconds since 1970.
    pub(super) fn since(&self) -> u64 {
        now().saturating_sub(self.idle)
    }
}

/// Takes away what was not used for too long, and what was used least recently until the rest is
/// within the bound. Says how many bytes are left.
pub(super) fn sweep(database: &Database, bounds: Bounds) -> Result<u64, redb::Error> {
    let (since, left) = keep_from(&by_minute(database)?, bounds);
    let transaction = database.begin_write()?;
    {
        let mut gone = Vec::new();
        let mut marks = transaction.open_table(MARKS)?;
        marks.retain(|key, mark| {
            let mark = Mark::read(mark);
            let stays = mark.as_ref().is_some_and(|mark| mark.used >= since);
            if !stays && mark.is_none_or(|mark| mark.record > 0) {
                gone.push(key.to_vec());
            }
            stays
        })?;
        let mut records = transaction.open_table(RECORDS)?;
        for key in gone {
            records.remove(&key[..])?;
        }
    }
    transaction.commit()?;
    Ok(left)
}

/// Bytes of entries by the minute of their last use.
fn by_minute(database: &Database) -> Result<BTreeMap<u64, u64>, redb::Error> {
    let transaction = database.begin_read()?;
    let marks = transaction.open_table(MARKS)?;
    let mut minutes = BTreeMap::new();
    for found in marks.iter()? {
        let (_, mark) = found?;
        if let Some(mark) = Mark::read(mark.value()) {
            *minutes.entry(mark.used / 60).or_default() += mark.weight();
        }
    }
    Ok(minutes)
}

/// From which second on entries are kept, and how many bytes that leaves.
fn keep_from(minutes: &BTreeMap<u64, u64>, bounds: Bounds) -> (u64, u64) {
    let fresh = bounds.since();
    let alive = || {
        minutes
            .iter()
            .rev()
            .filter(|(minute, _)| **minute * 60 + 59 >= fresh)
    };
    let all: u64 = alive().map(|(_, bytes)| bytes).sum();
    if all <= bounds.bytes {
        return (fresh, all);
    }
    let room = bounds.bytes / 100 * LEFT_PERCENT;
    let mut left = 0;
    let mut since = u64::MAX;
    for (minute, bytes) in alive() {
        if left + bytes > room {
            break;
        }
        left += bytes;
        since = minute * 60;
    }
    (since.max(fresh), left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: u64 = u64::MAX;

    /// The minutes from 0 on take so many bytes each; what is kept of them within 100 bytes.
    fn check(bytes: &[u64], since: u64, left: u64) {
        let minutes = (0..).zip(bytes.iter().copied()).collect();
        let bounds = Bounds {
            bytes: 100,
            idle: NEVER,
        };
        assert_eq!(keep_from(&minutes, bounds), (since, left), "{bytes:?}");
    }

    #[test]
    fn the_least_recently_used_go_until_a_tenth_is_free() {
        check(&[], 0, 0);
        check(&[50, 50], 0, 100);
        check(&[50, 51], 60, 51);
        check(&[11, 50, 40], 60, 90);
        check(&[1, 50, 41], 0, 92);
        check(&[10, 50, 41], 120, 41);
        check(&[10, 101], u64::MAX, 0);
    }

    #[test]
    fn what_was_not_used_for_too_long_goes_first() {
        let minute = now() / 60;
        let minutes = BTreeMap::from([(minute - 10, 90), (minute, 90)]);
        let bounds = Bounds {
            bytes: 100,
            idle: 300,
        };
        let (since, left) = keep_from(&minutes, bounds);
        assert_eq!(left, 90);
        assert!(since > (minute - 10) * 60 + 59 && since < now());
    }
}
