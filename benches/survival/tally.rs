//! Counts of wanted identifiers that survive, over all cuts.

use crate::history::{Message, Wanted};
use std::collections::HashSet;
use std::ops::AddAssign;

/// Wanted and surviving identifiers, over any number of cuts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) cuts: u64,
    /// Tokens of the compacted histories.
    pub(crate) tokens: u64,
    pub(crate) all: Share,
    pub(crate) far: Share,
}

/// Surviving share of the wanted identifiers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    wanted: u64,
    stood: u64,
}

impl Tally {
    /// Counts the identifiers of `wanted` that occur in `compacted`.
    pub(crate) fn of(wanted: &Wanted<'_>, compacted: &[Message]) -> Self {
        let mut standing = HashSet::new();
        let mut tokens = 0;
        for message in compacted {
            message.identifiers(&mut |found| _ = standing.insert(found));
            tokens += message.tokens() as u64;
        }
        Self {
            cuts: 1,
            tokens,
            all: Share::of(&wanted.all, &standing),
            far: Share::of(&wanted.far, &standing),
        }
    }
}

impl Share {
    fn of(wanted: &HashSet<&str>, standing: &HashSet<&str>) -> Self {
        let stood = wanted.iter().filter(|it| standing.contains(*it));
        Self {
            wanted: wanted.len() as u64,
            stood: stood.count() as u64,
        }
    }

    /// The share in thousandths; `None` if no identifier was wanted.
    pub(crate) fn thousandths(self) -> Option<u64> {
        (self.stood * 1_000 + self.wanted / 2).checked_div(self.wanted)
    }

    /// Number of wanted identifiers.
    pub(crate) fn wanted(self) -> u64 {
        self.wanted
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.tokens += other.tokens;
        for (sum, more) in [(&mut self.all, other.all), (&mut self.far, other.far)] {
            sum.wanted += more.wanted;
            sum.stood += more.stood;
        }
    }
}

/// Formats a share as a percentage, or as a dash if no identifier was wanted.
pub(crate) fn percent(share: Share) -> String {
    share.thousandths().map_or_else(
        || "–".to_owned(),
        |thousandths| format!("{}.{}%", thousandths / 10, thousandths % 10),
    )
}
