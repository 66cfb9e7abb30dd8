//! Sizes of a break: what stays in use, and the token budgets for the parts of a replacement text.

use super::Thresholds;
use crate::units::tokens::Tokens;

/// Share of the room for further segments that the next one takes, in percent. `bench/COMPACTION.md` has
/// the effect of each of these numbers.
const SEGMENT_PERCENT: u32 = 65;
/// Largest and smallest segment, in percent of the history that it covers.
const MAX_SEGMENT_PERCENT: u32 = 30;
const MIN_SEGMENT_PERCENT: u32 = 4;
/// Smallest segment: with less, not even a step and a name fit.
const MIN_SEGMENT: Tokens = Tokens::new(450);

/// Size to aim at in a break at the hard threshold, without the head. Steps stay messages as far as the size
/// allows. The size is a share of the room between the head and the threshold, up to a bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BreakTarget {
    /// Share of the room, in percent.
    pub percent: u32,
    /// Upper bound.
    pub most: Tokens,
}

impl BreakTarget {
    /// Clearing alone takes the place of a cut if it leaves no more. `bench/COMPACTION.md` has the effect.
    pub(super) const CLEARED: Self = Self { percent: 70, most: Tokens::new(28_000) };
    /// A cut leaves less, so that the next breaks only clear.
    pub(super) const CUT: Self = Self { percent: 48, most: Tokens::new(16_000) };

    /// Each break costs the bound reasoning since the one before, so such conversations break more rarely. On
    /// recorded sessions of two APIs, this target costs less than [`CUT`](Self::CUT) too.
    pub(super) const BOUND: Self = Self { percent: 30, most: Tokens::new(10_000) };

    /// Returns the size to aim at in a room of `room` tokens.
    pub(crate) fn of(self, room: Tokens) -> Tokens {
        room.percent(self.percent).min(self.most)
    }
}

/// Token budgets for the parts of a replacement text: of all segments together, or of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SummaryBudgets {
    /// Text of the model: 4% of the capacity, 250 to 1,500.
    pub prose: Tokens,
    /// Steps of a digest, in place of such a text: 6% of the capacity, 300 to 4,000.
    pub steps: Tokens,
    /// Files: 1.5% of the capacity, at most 1,000.
    pub file_activity: Tokens,
    /// Identifiers: 5% of the capacity, at most 2,000.
    pub identifiers: Tokens,
    /// User messages: 9% of the capacity, at most 4,000: a quarter of what stands for history right after
    /// a cut.
    pub user_messages: Tokens,
    /// Agreements, rules of files and rejected calls: 5% of the capacity in windows of 32,000 tokens and more.
    /// The share rises in a straight line to 10% in windows of 8,000 and less.
    pub agreements: Tokens,
    /// First and newest user request, in addition to the user messages. Zero until the history is
    /// known; see [`digest::summary_budgets`](crate::summary::digest::summary_budgets).
    pub requests: Tokens,
}

impl SummaryBudgets {
    pub(super) fn new(thresholds: &Thresholds) -> Self {
        let capacity = thresholds.capacity;
        Self {
            prose: capacity.percent(4).clamp(Tokens::new(250), Tokens::new(1_500)),
            steps: capacity.percent(6).clamp(Tokens::new(300), Tokens::new(4_000)),
            file_activity: capacity.percent(3).divided_by(2).min(Tokens::new(1_000)),
            identifiers: capacity.percent(5).min(Tokens::new(2_000)),
            user_messages: capacity.percent(9).min(Tokens::new(4_000)),
            agreements: agreements(thresholds),
            requests: Tokens::ZERO,
        }
    }

    /// Splits these budgets, which cover all segments, for a new segment over `part` tokens of history.
    /// Earlier segments already use `so_far`.
    ///
    /// A segment takes a share of the room that the others leave, so the first segments are large.
    #[must_use]
    pub fn of_segment(&self, part: Tokens, so_far: Tokens) -> Self {
        let all = self.nominal() - self.requests;
        let left = (all - so_far).percent(SEGMENT_PERCENT);
        let tokens = left
            .min(part.percent(MAX_SEGMENT_PERCENT))
            .max(part.percent(MIN_SEGMENT_PERCENT))
            .max(MIN_SEGMENT)
            .min(all);
        // What the user said in a small part may fill the part, and a file of rules may fill its budget.
        let words = self.scaled(left.max(tokens).min(all), all);
        let unused = self.scaled(all - so_far, all);
        Self {
            user_messages: words.user_messages,
            agreements: words.agreements.max(unused.agreements),
            ..self.scaled(tokens, all)
        }
    }

    /// Scales all budgets but that of the requests by `part` of `whole`.
    #[must_use]
    pub(super) fn scaled(&self, part: Tokens, whole: Tokens) -> Self {
        self.map(|budget| budget.scaled(part, whole))
    }

    /// Applies `share` to all budgets but that of the requests.
    #[must_use]
    pub(crate) fn map(&self, share: impl Fn(Tokens) -> Tokens) -> Self {
        Self {
            prose: share(self.prose),
            steps: share(self.steps),
            file_activity: share(self.file_activity),
            identifiers: share(self.identifiers),
            user_messages: share(self.user_messages),
            agreements: share(self.agreements),
            requests: self.requests,
        }
    }

    /// Size that a replacement text usually takes: few conversations fill the room for words of the user.
    pub(crate) fn usual(&self) -> Tokens {
        self.nominal() - self.user_messages.divided_by(2) - self.agreements
    }

    /// Maximum size of the replacement text, without its frame. The fold decides with this
    /// size whether a cut helps.
    pub fn nominal(&self) -> Tokens {
        self.prose.max(self.steps)
            + self.file_activity
            + self.identifiers
            + self.user_messages
            + self.agreements
            + self.requests
    }
}

/// Windows between which the share of agreements and rules falls, in tokens, and the shares at both ends, in
/// thousandths of the capacity.
const AGREEMENTS_WINDOWS: (u32, u32) = (8_000, 32_000);
const AGREEMENTS_SHARES: (u32, u32) = (100, 50);
/// Largest budget of agreements and rules.
const MAX_AGREEMENTS: Tokens = Tokens::new(4_000);

/// Returns the budget of agreements, rules of files and rejected calls.
fn agreements(thresholds: &Thresholds) -> Tokens {
    let (small, wide) = AGREEMENTS_WINDOWS;
    let (most, least) = AGREEMENTS_SHARES;
    let beyond = thresholds.window.get().clamp(small, wide) - small;
    let share = most - beyond * (most - least) / (wide - small);
    let budget = thresholds.capacity.scaled(Tokens::new(share), Tokens::new(1_000));
    budget.min(MAX_AGREEMENTS)
}
