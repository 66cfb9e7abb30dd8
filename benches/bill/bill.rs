//! The bill: the cost of a session with longhaul, next to its cost without a proxy in an unlimited
//! window.

use crate::play::Played;
use crate::prices::{FREE_WRITES, Input, Prices};
use std::iter::Sum;
use std::ops::Add;

/// Totals over one or more sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bill {
    pub(crate) sessions: usize,
    /// Sessions that ended early because a request was not answered.
    pub(crate) broken_off: usize,
    /// Answered requests, and all requests.
    pub(crate) answered: usize,
    pub(crate) requests: usize,
    /// Input of the conversation's requests.
    pub(crate) chats: Input,
    /// Input of the summary calls.
    pub(crate) briefs: Input,
    /// Input of these requests without a proxy.
    pub(crate) without: Input,
    /// Input of the answered requests that cannot shrink: heads, and the provider's compaction items.
    pub(crate) pinned: u64,
    /// Requests that did not extend the previous one, and requests that were retried.
    pub(crate) changes: usize,
    pub(crate) retries: usize,
    /// Changes after which a digest or a summary replaced history.
    pub(crate) condensed: usize,
    /// Summaries written by a model.
    pub(crate) summaries: usize,
}

impl Bill {
    /// The bill of a session; `direct` holds the input of each request without a proxy, and `pinned`
    /// the tokens that cannot shrink.
    ///
    /// If the session broke off, neither sum includes the requests that were never sent.
    pub(crate) fn of(played: &Played, direct: &[Input], pinned: u64) -> Self {
        let answered = played.steps.len();
        let changes = played.steps.iter().filter(|step| step.changed);
        Self {
            sessions: 1,
            broken_off: usize::from(answered < direct.len()),
            answered,
            requests: direct.len(),
            chats: played.steps.iter().map(|step| step.input).sum(),
            briefs: played.summaries.iter().copied().sum(),
            without: direct.iter().copied().take(answered).sum(),
            pinned: pinned * answered as u64,
            changes: changes.clone().count(),
            retries: played.steps.iter().filter(|step| step.retried).count(),
            condensed: changes.filter(|step| step.condensed).count(),
            summaries: played.summaries.len(),
        }
    }

    /// Total input with longhaul.
    pub(crate) fn with(&self) -> Input {
        self.chats + self.briefs
    }

    /// Ratio of the cost with longhaul to the cost without, in ten-thousandths.
    pub(crate) fn ratio(&self, prices: Prices) -> u64 {
        ten_thousandths(self.with().cost(prices), self.without.cost(prices))
    }

    /// Like [`ratio`](Self::ratio) at free cache writes, without the summary calls.
    pub(crate) fn ratio_without_calls(&self) -> u64 {
        ten_thousandths(self.chats.cost(FREE_WRITES), self.without.cost(FREE_WRITES))
    }

    /// Cached share of the conversation's input, in ten-thousandths.
    pub(crate) fn cached(&self) -> u64 {
        ten_thousandths(self.chats.cached, self.chats.tokens())
    }

    /// Share of the agent's input that was forwarded, in ten-thousandths.
    pub(crate) fn kept(&self) -> u64 {
        ten_thousandths(self.chats.tokens(), self.without.tokens())
    }

    /// Share of the forwarded input that cannot shrink, in ten-thousandths.
    pub(crate) fn pinned(&self) -> u64 {
        ten_thousandths(self.pinned, self.chats.tokens())
    }

    /// Like [`kept`](Self::kept), of the input that can shrink.
    pub(crate) fn kept_of_free(&self) -> u64 {
        let free = |input: Input| input.tokens().saturating_sub(self.pinned);
        ten_thousandths(free(self.chats), free(self.without))
    }

    /// The highest cost ratio and the price pair that gives it.
    pub(crate) fn worst(&self, prices: [Prices; 3]) -> (u64, Prices) {
        let [first, rest @ ..] = prices;
        let ratio = |prices| (self.ratio(prices), prices);
        rest.into_iter().map(ratio).fold(
            ratio(first),
            |worst, next| {
                if next.0 > worst.0 { next } else { worst }
            },
        )
    }
}

/// Returns the input of a session of chats without a proxy: every request extends the previous one,
/// so all of the previous one is cached.
pub(crate) fn extending(wholes: &[u64]) -> Vec<Input> {
    let before = std::iter::once(0).chain(wholes.iter().copied());
    let pairs = wholes.iter().zip(before);
    pairs.map(|(&whole, before)| Input::of(whole, before)).collect()
}

/// Share of `part` in `whole`, in ten-thousandths; one if `whole` is zero.
fn ten_thousandths(part: u64, whole: u64) -> u64 {
    (part * 10_000).checked_div(whole).unwrap_or(10_000)
}

impl Add for Bill {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            broken_off: self.broken_off + other.broken_off,
            answered: self.answered + other.answered,
            requests: self.requests + other.requests,
            chats: self.chats + other.chats,
            briefs: self.briefs + other.briefs,
            without: self.without + other.without,
            pinned: self.pinned + other.pinned,
            changes: self.changes + other.changes,
            retries: self.retries + other.retries,
            condensed: self.condensed + other.condensed,
            summaries: self.summaries + other.summaries,
        }
    }
}

impl Sum for Bill {
    fn sum<I: Iterator<Item = Self>>(bills: I) -> Self {
        bills.fold(Self::default(), Add::add)
    }
}
