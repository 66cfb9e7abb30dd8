//! The bill: what a session cost with longhaul, beside what it costs with no proxy and a window
//! without end.

use crate::play::Played;
use crate::prices::{Input, PRICES, Prices};
use std::iter::Sum;
use std::ops::Add;

/// What one or more sessions came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bill {
    pub(crate) sessions: usize,
    /// Sessions that ended before their time: a request got no answer.
    pub(crate) broken_off: usize,
    /// Requests that were answered, and all that there are.
    pub(crate) answered: usize,
    pub(crate) requests: usize,
    /// What the conversation's requests came to.
    pub(crate) chats: Input,
    /// What summaries read.
    pub(crate) briefs: Input,
    /// The same requests without a proxy.
    pub(crate) without: Input,
    /// Requests that did not begin with the one before, and those that were sent twice.
    pub(crate) changes: usize,
    pub(crate) retries: usize,
    /// Changes after which a digest or a summary stands for history.
    pub(crate) condensed: usize,
    /// Summaries that a model wrote.
    pub(crate) summaries: usize,
}

impl Bill {
    /// The bill of a session whose requests have `wholes` tokens each as the agent sends them.
    ///
    /// Of one that broke off, what was not asked is in neither sum.
    pub(crate) fn of(played: &Played, wholes: &[u64]) -> Self {
        let answered = played.steps.len();
        let changes = played.steps.iter().filter(|step| step.changed);
        Self {
            sessions: 1,
            broken_off: usize::from(answered < wholes.len()),
            answered,
            requests: wholes.len(),
            chats: played.steps.iter().map(|step| step.input).sum(),
            briefs: played.summaries.iter().copied().sum(),
            without: without(wholes).take(answered).sum(),
            changes: changes.clone().count(),
            retries: played.steps.iter().filter(|step| step.retried).count(),
            condensed: changes.filter(|step| step.condensed).count(),
            summaries: played.summaries.len(),
        }
    }

    /// The bill of a session to which nothing was done.
    pub(crate) fn untouched(wholes: &[u64]) -> Self {
        Self {
            sessions: 1,
            answered: wholes.len(),
            requests: wholes.len(),
            chats: without(wholes).sum(),
            without: without(wholes).sum(),
            ..Self::default()
        }
    }

    /// All input with longhaul.
    pub(crate) fn with(&self) -> Input {
        self.chats + self.briefs
    }

    /// The cost with longhaul over that without, in ten-thousandths.
    pub(crate) fn ratio(&self, prices: Prices) -> u64 {
        ten_thousandths(self.with().cost(prices), self.without.cost(prices))
    }

    /// The share of the conversation's input that the cache knew, in ten-thousandths.
    pub(crate) fn cached(&self) -> u64 {
        ten_thousandths(self.chats.cached, self.chats.tokens())
    }

    /// The share of what the agent sent that went on, in ten-thousandths.
    pub(crate) fn kept(&self) -> u64 {
        ten_thousandths(self.chats.tokens(), self.without.tokens())
    }

    /// The price pair under which it compares worst, with that ratio.
    pub(crate) fn worst(&self) -> (u64, Prices) {
        let [first, rest @ ..] = PRICES;
        let ratio = |prices| (self.ratio(prices), prices);
        rest.into_iter().map(ratio).fold(
            ratio(first),
            |worst, next| {
                if next.0 > worst.0 { next } else { worst }
            },
        )
    }
}

/// What a session costs without a proxy: every request repeats the one before and adds to it, so the
/// cache knows all of that one.
fn without(wholes: &[u64]) -> impl Iterator<Item = Input> {
    let before = std::iter::once(0).chain(wholes.iter().copied());
    let pairs = wholes.iter().zip(before);
    pairs.map(|(&whole, before)| Input::of(whole, before))
}

/// A share; of nothing it is one.
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
