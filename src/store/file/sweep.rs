//! Removal of entries when the file is too large, or when they were not used for too long.

use std::collections::BTreeMap;

use redb::{Database, ReadableDatabase, ReadableTable};

use super::table::{EntryMeta, METADATA, RECORDS};
use crate::callers::owners::OwnerTag;
use longhaul_core::units::scope::ScopeTag;

/// A sweep that makes room leaves one part in this many free, so that the next is not due at once.
const FREE_FRACTION: u64 = 10;

/// Earliest plausible time: 2026-01-01, in seconds since 1970. An earlier clock is not set yet, and
/// last uses ahead of it may well be right.
const EARLIEST_CLOCK: u64 = 1_767_225_600;

#[derive(Clone, Copy, Debug)]
pub(super) struct FileLimits {
    pub(super) max_bytes: u64,
    /// Seconds that an entry is kept after its last use.
    pub(super) idle_secs: u64,
}

impl FileLimits {
    /// Returns the time before which a last use has expired, in seconds since 1970.
    pub(super) fn expiry(&self, now: u64) -> u64 {
        now.saturating_sub(self.idle_secs)
    }
}

/// Removes entries that were not used for too long. Then removes the least recently used ones of the
/// largest scopes of the owners that hold the most, until the rest fits. Returns how many bytes are
/// left.
///
/// A last use in the future, by a wrong clock, counts as now. Otherwise the entry would stay while
/// newer ones are removed.
pub(super) fn sweep(
    database: &Database,
    bounds: FileLimits,
    now: u64,
    owner_of: impl Fn(ScopeTag) -> OwnerTag,
) -> Result<u64, redb::Error> {
    let since = bounds.expiry(now);
    let steps = bytes_by_step(database, since, now)?;
    let held = steps.iter().map(|(scope, steps)| (*scope, steps.values().sum()));
    let shares = share_by_scope(held.collect(), bounds.max_bytes, owner_of);
    let cut = |(scope, steps): (&ScopeTag, &Steps)| {
        let share = shares.get(scope).copied().unwrap_or_default();
        (*scope, SweepCutoff::new(steps, share, since))
    };
    let mut cuts: BTreeMap<_, _> = steps.iter().map(cut).collect();
    let transaction = database.begin_write()?;
    {
        let mut gone = Vec::new();
        let mut ahead = Vec::new();
        let mut marks = transaction.open_table(METADATA)?;
        marks.retain(|key, mark| {
            let mark = EntryMeta::decode(mark);
            let cut = cuts.get_mut(&scope_of(key));
            let both = mark.as_ref().zip(cut);
            let stays = both.is_some_and(|(mark, cut)| cut.keeps(mark, now));
            match mark {
                Some(mark) if stays && mark.last_used > now && now >= EARLIEST_CLOCK => {
                    ahead.push((key.to_vec(), mark));
                }
                Some(mark) if stays || mark.record_bytes == 0 => {}
                _ => gone.push(key.to_vec()),
            }
            stays
        })?;
        for (key, mut mark) in ahead {
            mark.last_used = now;
            marks.insert(&key[..], &mark.encode()[..])?;
        }
        let mut records = transaction.open_table(RECORDS)?;
        for key in gone {
            records.remove(&key[..])?;
        }
    }
    transaction.commit()?;
    Ok(cuts.values().map(|cut| cut.kept_bytes).sum())
}

/// Bytes of entries, by the step of their last use.
type Steps = BTreeMap<u64, u64>;

fn scope_of(key: &[u8]) -> ScopeTag {
    ScopeTag(key.first_chunk().copied().unwrap_or_default())
}

/// Returns how much of `bytes` each scope may keep of what it holds: an equal part of the equal share of its
/// owner.
fn share_by_scope(
    held: BTreeMap<ScopeTag, u64>,
    bytes: u64,
    owner_of: impl Fn(ScopeTag) -> OwnerTag,
) -> BTreeMap<ScopeTag, u64> {
    let mut by_owner: BTreeMap<OwnerTag, BTreeMap<ScopeTag, u64>> = BTreeMap::new();
    for (scope, held) in held {
        let scopes = by_owner.entry(owner_of(scope)).or_default();
        scopes.insert(scope, held);
    }
    let of_owners = by_owner.values().map(|scopes| scopes.values().sum());
    let of_owner = fair_share(of_owners.collect(), bytes);
    let mut shares = BTreeMap::new();
    for scopes in by_owner.into_values() {
        let share = fair_share(scopes.values().copied().collect(), of_owner);
        shares.extend(scopes.into_keys().map(|scope| (scope, share)));
    }
    shares
}

/// Returns how much of `bytes` each holder of these quantities may keep. Holders of less than an equal
/// share keep all, and the others share the rest equally.
fn fair_share(mut held: Vec<u64>, bytes: u64) -> u64 {
    held.sort_unstable();
    let mut left = bytes;
    for (holders, held) in (1..=held.len() as u64).rev().zip(held) {
        let share = left / holders;
        if held > share {
            return share;
        }
        left -= held;
    }
    bytes
}

/// Sums the bytes of the entries that were used since `since`, by scope and by the step of their last
/// use.
fn bytes_by_step(
    database: &Database,
    since: u64,
    now: u64,
) -> Result<BTreeMap<ScopeTag, Steps>, redb::Error> {
    let transaction = database.begin_read()?;
    let marks = transaction.open_table(METADATA)?;
    let mut steps: BTreeMap<ScopeTag, Steps> = BTreeMap::new();
    for found in marks.iter()? {
        let (key, mark) = found?;
        let mark = EntryMeta::decode(mark.value()).filter(|mark| mark.last_used >= since);
        if let Some(mark) = mark {
            let steps = steps.entry(scope_of(key.value())).or_default();
            let step = time_step(mark.last_used.min(now), now);
            *steps.entry(step).or_default() += mark.weight();
        }
    }
    Ok(steps)
}

/// Returns when the step of a last use began. A step is a minute, or a second of the last sixty.
fn time_step(used: u64, now: u64) -> u64 {
    if used.saturating_add(60) > now { used } else { used / 60 * 60 }
}

#[derive(Debug, Eq, PartialEq)]
struct SweepCutoff {
    /// Entries that were used since then stay.
    keep_since: u64,
    /// Earlier entries that were used since then stay if there is room.
    trim_since: u64,
    /// Bytes of room for those earlier entries.
    room: u64,
    /// Bytes of the entries that stay, summed so far.
    kept_bytes: u64,
}

impl SweepCutoff {
    /// Computes the cutoff for these steps, all of them since `since`, and a limit of `bytes`.
    fn new(steps: &BTreeMap<u64, u64>, bytes: u64, since: u64) -> Self {
        let mut cut = Self { keep_since: since, trim_since: since, room: 0, kept_bytes: 0 };
        if steps.values().sum::<u64>() <= bytes {
            return cut;
        }
        cut.keep_since = u64::MAX;
        cut.room = bytes - bytes / FREE_FRACTION;
        for (step, bytes) in steps.iter().rev() {
            cut.trim_since = since.max(*step);
            if *bytes > cut.room {
                break;
            }
            cut.room -= bytes;
            cut.keep_since = cut.trim_since;
        }
        cut
    }

    /// Decides whether an entry stays, and counts its bytes if it does.
    fn keeps(&mut self, mark: &EntryMeta, now: u64) -> bool {
        let weight = mark.weight();
        let used = mark.last_used.min(now);
        if used < self.keep_since {
            if used < self.trim_since || weight > self.room {
                return false;
            }
            self.room -= weight;
        }
        self.kept_bytes += weight;
        true
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    const NOW: u64 = 1_800_000_000;
    const IDLE: u64 = 3_600;

    /// Sweeps entries with these last uses. Returns the last uses that are left, and their bytes.
    fn swept(used: &[u64], bytes: u64, now: u64) -> (Vec<u64>, u64) {
        let backend = InMemoryBackend::new();
        let database = Database::builder().create_with_backend(backend).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut marks = transaction.open_table(METADATA).unwrap();
            for (key, used) in (0_u8..).zip(used) {
                let mut mark = EntryMeta::default();
                mark.last_used = *used;
                marks.insert(&[key][..], &mark.encode()[..]).unwrap();
            }
            transaction.open_table(RECORDS).unwrap();
        }
        transaction.commit().unwrap();

        let bounds = FileLimits { max_bytes: bytes, idle_secs: IDLE };
        let left = sweep(&database, bounds, now, |scope| scope).unwrap();
        let transaction = database.begin_read().unwrap();
        let marks = transaction.open_table(METADATA).unwrap();
        let marks = marks.iter().unwrap().map(|found| found.unwrap().1);
        let mut used: Vec<_> =
            marks.map(|mark| EntryMeta::decode(mark.value()).unwrap().last_used).collect();
        used.sort_unstable();
        (used, left)
    }

    /// Checks which entries are left of those used `ago` seconds ago, with room for `fit` of them.
    fn check(ago: &[i64], fit: u64, left: &[i64]) {
        let used = |ago: &[i64]| -> Vec<u64> {
            let used = ago.iter().map(|ago| NOW.checked_add_signed(-ago).unwrap());
            used.collect()
        };
        let weight = EntryMeta::default().weight();
        let bytes = weight * u64::try_from(left.len()).unwrap();
        assert_eq!(
            swept(&used(ago), fit * weight, NOW),
            (used(left), bytes),
            "{ago:?} where {fit} fit"
        );
    }

    #[test]
    fn removes_nothing_while_everything_fits() {
        check(&[], 1, &[]);
        check(&[3_000, 200, 0], 3, &[3_000, 200, 0]);
    }

    #[test]
    fn removes_the_least_recently_used_until_a_tenth_is_free() {
        let minutes: Vec<_> = (0..20).map(|minute| minute * 60 + 100).rev().collect();
        check(&minutes, 10, &minutes[11..]);
        check(&minutes, 20, &minutes);
        check(&minutes, 19, &minutes[3..]);
    }

    #[test]
    fn keeps_the_newest_if_all_were_used_in_the_last_minute() {
        let seconds: Vec<_> = (0..20).rev().collect();
        check(&seconds, 10, &seconds[11..]);
    }

    #[test]
    fn keeps_some_if_all_were_used_at_once() {
        check(&[0; 20], 10, &[0; 9]);
        check(&[600; 20], 10, &[600; 9]);
    }

    #[test]
    fn removes_expired_entries_first() {
        check(&[3_601, 0, 3_600, 9_999], 3, &[3_600, 0]);
    }

    #[test]
    fn future_use_counts_as_used_now() {
        check(&[-9_999, 5, -1], 3, &[5, 0, 0]);
        check(&[-9_999; 20], 10, &[0; 9]);
        check(&[i64::MIN / 4, 5, 600], 2, &[0]);
    }

    #[test]
    fn scopes_with_less_than_an_equal_share_keep_all() {
        let share = |held: &[u64]| fair_share(held.to_vec(), 100);
        assert_eq!(share(&[]), 100);
        assert_eq!(share(&[500]), 100);
        assert_eq!(share(&[10, 500, 20]), 70);
        assert_eq!(share(&[500, 500]), 50);
        assert_eq!(share(&[40, 60]), 100, "everything fits");
    }

    #[test]
    fn scopes_of_one_owner_have_one_share() {
        let scope = |number| ScopeTag([number; 8]);
        let held = (0..=10).map(|number| (scope(number), 50)).collect();
        let shares = share_by_scope(held, 100, |of| if of == scope(0) { of } else { scope(1) });
        assert!(shares[&scope(0)] >= 50);
        assert_eq!(shares[&scope(1)], 5);
    }

    #[test]
    fn unset_clock_makes_no_entry_older() {
        let used = [NOW, NOW + 60];
        assert_eq!(swept(&used, u64::MAX, 1_000).0, used);
    }
}
