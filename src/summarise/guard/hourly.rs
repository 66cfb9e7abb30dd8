//! How many summaries were asked for in the last hour, by a conversation, a caller and the process.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;

use super::super::Till;
use crate::lock::Mutex;
use crate::metrics::{Label as _, Withheld};
use crate::rewrite::chain::{RecordKey, Scope};

/// Summaries that a process asks for in an hour; past it the digest serves. Twenty conversations have
/// all that `summary.max_per_hour` gives each by default; what asks for more is stuck, and callers pay.
pub(super) const PER_PROCESS: usize = 120;
/// Of those, what one caller may ask for, all that ten conversations have: no caller's are all that
/// there are.
pub(super) const PER_CALLER: usize = PER_PROCESS / 2;
/// Conversations remembered at once.
const CONVERSATIONS: u64 = 4_096;
/// And callers.
const CALLERS: u64 = 4_096;
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// When the last summaries were asked for.
pub(super) struct Hourly {
    /// What one conversation may ask for.
    per_conversation: usize,
    process: Arc<Times>,
    callers: Cache<Scope, Arc<Times>>,
    conversations: Cache<RecordKey, Arc<Times>>,
}

/// One that is asked for. What nobody charges for no longer counts once it is dropped. For the process
/// nothing does that nobody has answered by then: who has no valid key takes nobody's place.
#[must_use]
pub(crate) struct Counted {
    process: Arc<Times>,
    /// The caller's and the conversation's.
    own: [Arc<Times>; 2],
    till: Arc<Till>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.till.was_answered() {
            self.process.one_less();
        }
        if !self.till.was_charged() {
            self.own.iter().for_each(|times| times.one_less());
        }
    }
}

/// The times in the last hour at which something was done. Whoever counts bounds them.
#[derive(Default)]
pub(crate) struct Times(Mutex<VecDeque<Instant>>);

impl Hourly {
    pub(super) fn new(per_conversation: usize) -> Self {
        Self {
            per_conversation,
            process: Arc::default(),
            callers: for_an_hour(CALLERS),
            conversations: for_an_hour(CONVERSATIONS),
        }
    }

    /// Which cap a caller's conversation that begins so has come to, if it may ask for no more.
    pub(super) fn spent(&self, scope: Scope, conversation: RecordKey) -> Option<Withheld> {
        let of_caller = self.callers.get(&scope);
        let own = self.conversations.get(&conversation);
        if self.is_spent() {
            Some(Withheld::Process)
        } else if of_caller.is_some_and(|all| all.lately() >= PER_CALLER) {
            Some(Withheld::Caller)
        } else {
            let lately = own.map_or(0, |own| own.lately());
            (lately >= self.per_conversation).then_some(Withheld::Conversation)
        }
    }

    /// Whether nobody may ask for one more.
    pub(super) fn is_spent(&self) -> bool {
        self.process.lately() >= PER_PROCESS
    }

    /// Callers who may ask for no more, whatever others do.
    pub(super) fn spent_callers(&self) -> usize {
        let spent = |(_, times): &(_, Arc<Times>)| times.lately() >= PER_CALLER;
        self.callers.iter().filter(spent).count()
    }

    /// It asks for one, which is paid for at `till`.
    pub(super) fn count(&self, scope: Scope, conversation: RecordKey, till: &Arc<Till>) -> Counted {
        let of_caller = self.callers.entry(scope).or_default();
        let own = self.conversations.entry(conversation).or_default();
        let counted = Counted {
            process: Arc::clone(&self.process),
            own: [of_caller.into_value(), own.into_value()],
            till: Arc::clone(till),
        };
        let [of_caller, own] = &counted.own;
        for (times, most, whose) in [
            (own, self.per_conversation, Withheld::Conversation),
            (of_caller, PER_CALLER, Withheld::Caller),
            (&counted.process, PER_PROCESS, Withheld::Process),
        ] {
            if times.now() == most {
                tell_spent(whose, most);
            }
        }
        counted
    }
}

/// Tells the operator that no more are asked for in this hour.
fn tell_spent(whose: Withheld, most: usize) {
    tracing::info!(
        cap = whose.label(),
        most,
        "as many summaries are asked for as an hour may have; until it is over, digests stand in"
    );
}

/// Times of so many, each forgotten when nothing was asked for in an hour.
fn for_an_hour<K: Hash + Eq + Send + Sync + 'static>(many: u64) -> Cache<K, Arc<Times>> {
    Cache::builder()
        .max_capacity(many)
        .time_to_idle(HOUR)
        .build()
}

impl Times {
    /// How many they are.
    pub(crate) fn lately(&self) -> usize {
        let mut times = self.0.lock();
        forget(&mut times);
        times.len()
    }

    /// It is done now; how many they are with that.
    pub(crate) fn now(&self) -> usize {
        let mut times = self.0.lock();
        forget(&mut times);
        times.push_back(Instant::now());
        times.len()
    }

    /// What was done at the last of them does not count.
    fn one_less(&self) {
        self.0.lock().pop_back();
    }
}

/// Forgets those that are an hour ago.
fn forget(times: &mut VecDeque<Instant>) {
    while times.front().is_some_and(|at| at.elapsed() >= HOUR) {
        times.pop_front();
    }
}
