//! What goes when the file has become too large, or was not used for too long.

use std::collections::BTreeMap;

use redb::{Database, ReadableDatabase, ReadableTable};

use super::mark::Mark;
use super::table::{MARKS, RECORDS};

/// A sweep that makes room leaves one part in so many free: the next one is not due at once.
const FREE_PART: u64 = 10;

/// A clock that says less is not set yet: what it finds ahead of itself may well be right.
const CLOCK_SET: u64 = 1_767_225_600;

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
    pub(super) fn since(&self, now: u64) -> u64 {
        now.saturating_sub(self.idle)
    }
}

/// Takes away what was not used for too long, and what was used least recently until the rest is
/// within the bound. What was used in the future, by a clock that was wrong, counts as used now: else
/// it would stay, and newer entries go before it. Says how many bytes are left.
pub(super) fn sweep(database: &Database, bounds: Bounds, now: u64) -> Result<u64, redb::Error> {
    let since = bounds.since(now);
    let mut cut = Cut::of(&by_step(database, since, now)?, bounds.bytes, since);
    let transaction = database.begin_write()?;
    {
        let mut gone = Vec::new();
        let mut ahead = Vec::new();
        let mut marks = transaction.open_table(MARKS)?;
        marks.retain(|key, mark| {
            let mark = Mark::read(mark);
            let stays = mark.as_ref().is_some_and(|mark| cut.leaves(mark, now));
            match mark {
                Some(mark) if stays && mark.used > now && now >= CLOCK_SET => {
                    ahead.push((key.to_vec(), mark));
                }
                Some(mark) if stays || mark.record == 0 => {}
                _ => gone.push(key.to_vec()),
            }
            stays
        })?;
        for (key, mut mark) in ahead {
            mark.used = now;
            marks.insert(&key[..], &mark.bytes()[..])?;
        }
        let mut records = transaction.open_table(RECORDS)?;
        for key in gone {
            records.remove(&key[..])?;
        }
    }
    transaction.commit()?;
    Ok(cut.left)
}

/// Bytes of the entries that were used since `since`, by the step of their last use.
fn by_step(database: &Database, since: u64, now: u64) -> Result<BTreeMap<u64, u64>, redb::Error> {
    let transaction = database.begin_read()?;
    let marks = transaction.open_table(MARKS)?;
    let mut steps = BTreeMap::new();
    for found in marks.iter()? {
        let (_, mark) = found?;
        let mark = Mark::read(mark.value()).filter(|mark| mark.used >= since);
        if let Some(mark) = mark {
            *steps.entry(step(mark.used.min(now), now)).or_default() += mark.weight();
        }
    }
    Ok(steps)
}

/// When the step began that an entry was last used in: a minute, or one of the last sixty seconds.
fn step(used: u64, now: u64) -> u64 {
    if used.saturating_add(60) > now {
        used
    } else {
        used / 60 * 60
    }
}

/// What a sweep leaves.
#[derive(Debug, Eq, PartialEq)]
struct Cut {
    /// Entries that were used since then stay.
    all: u64,
    /// Of those that were used before, but since then, some do.
    some: u64,
    /// As many of them as this has room for, in bytes.
    room: u64,
    /// Bytes of what stays, as far as it was met.
    left: u64,
}

impl Cut {
    /// What is left of these steps, all of them since `since`, where so many bytes may stand.
    fn of(steps: &BTreeMap<u64, u64>, bytes: u64, since: u64) -> Self {
        let mut cut = Self {
            all: since,
            some: since,
            room: 0,
            left: 0,
        };
        if steps.values().sum::<u64>() <= bytes {
            return cut;
        }
        cut.all = u64::MAX;
        cut.room = bytes - bytes / FREE_PART;
        for (step, bytes) in steps.iter().rev() {
            cut.some = since.max(*step);
            if *bytes > cut.room {
                break;
            }
            cut.room -= bytes;
            cut.all = cut.some;
        }
        cut
    }

    /// Whether this one is left.
    fn leaves(&mut self, mark: &Mark, now: u64) -> bool {
        let weight = mark.weight();
        let used = mark.used.min(now);
        if used < self.all {
            if used < self.some || weight > self.room {
                return false;
            }
            self.room -= weight;
        }
        self.left += weight;
        true
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    const NOW: u64 = 1_800_000_000;
    const IDLE: u64 = 3_600;

    /// When entries were used that a sweep leaves, of those that were used then, and their bytes.
    fn swept(used: &[u64], bytes: u64, now: u64) -> (Vec<u64>, u64) {
        let backend = InMemoryBackend::new();
        let database = Database::builder().create_with_backend(backend).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut marks = transaction.open_table(MARKS).unwrap();
            for (key, used) in (0_u8..).zip(used) {
                let mut mark = Mark::default();
                mark.used = *used;
                marks.insert(&[key][..], &mark.bytes()[..]).unwrap();
            }
            transaction.open_table(RECORDS).unwrap();
        }
        transaction.commit().unwrap();

        let bounds = Bounds { bytes, idle: IDLE };
        let left = sweep(&database, bounds, now).unwrap();
        let transaction = database.begin_read().unwrap();
        let marks = transaction.open_table(MARKS).unwrap();
        let marks = marks.iter().unwrap().map(|found| found.unwrap().1);
        let mut used: Vec<_> = marks
            .map(|mark| Mark::read(mark.value()).unwrap().used)
            .collect();
        used.sort_unstable();
        (used, left)
    }

    /// What is left of entries that were used so many seconds ago, where `fit` of them may stand.
    fn check(ago: &[i64], fit: u64, left: &[i64]) {
        let used = |ago: &[i64]| -> Vec<u64> {
            let used = ago.iter().map(|ago| NOW.checked_add_signed(-ago).unwrap());
            used.collect()
        };
        let weight = Mark::default().weight();
        let bytes = weight * u64::try_from(left.len()).unwrap();
        assert_eq!(
            swept(&used(ago), fit * weight, NOW),
            (used(left), bytes),
            "{ago:?} where {fit} fit"
        );
    }

    #[test]
    fn nothing_goes_while_all_fit() {
        check(&[], 1, &[]);
        check(&[3_000, 200, 0], 3, &[3_000, 200, 0]);
    }

    #[test]
    fn the_least_recently_used_go_until_a_tenth_is_free() {
        let minutes: Vec<_> = (0..20).map(|minute| minute * 60 + 100).rev().collect();
        check(&minutes, 10, &minutes[11..]);
        check(&minutes, 20, &minutes);
        check(&minutes, 19, &minutes[3..]);
    }

    #[test]
    fn the_newest_stay_where_all_were_used_in_the_last_minute() {
        let seconds: Vec<_> = (0..20).rev().collect();
        check(&seconds, 10, &seconds[11..]);
    }

    #[test]
    fn some_stay_where_all_were_used_at_once() {
        check(&[0; 20], 10, &[0; 9]);
        check(&[600; 20], 10, &[600; 9]);
    }

    #[test]
    fn what_was_not_used_for_too_long_goes_first() {
        check(&[3_601, 0, 3_600, 9_999], 3, &[3_600, 0]);
    }

    #[test]
    fn what_was_used_in_the_future_counts_as_used_now() {
        check(&[-9_999, 5, -1], 3, &[5, 0, 0]);
        check(&[-9_999; 20], 10, &[0; 9]);
        check(&[i64::MIN / 4, 5, 600], 2, &[0]);
    }

    #[test]
    fn a_clock_that_is_not_set_makes_nothing_older() {
        let used = [NOW, NOW + 60];
        assert_eq!(swept(&used, u64::MAX, 1_000).0, used);
    }
}
