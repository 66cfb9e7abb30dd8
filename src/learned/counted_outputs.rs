//! Models whose server counts the requested output as part of the window, learned from refusals.

use serde::{Deserialize, Serialize};

use crate::learned::MODELS_PER_CALLER;
use crate::wall_clock;
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::Timestamped;
use longhaul_core::window::token_ratio::CountSample;

/// Lifetime of a refusal in milliseconds, that of a learned window. A gateway may send later requests to
/// another server.
const LIFETIME_MS: u64 = 24 * 60 * 60 * 1_000;

/// Numbers of a request that was refused for its output.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountedOutput {
    /// The window, in the upstream's tokens.
    pub(crate) limit: Tokens,
    /// Size of the prompt; `None` if the upstream did not count all of it.
    pub(crate) sample: Option<CountSample>,
}

/// The newest such refusal of each model of one caller.
#[derive(Default)]
pub(crate) struct CountedOutputs {
    refusals: LockedCache<String, Timestamped<CountedOutput>, MODELS_PER_CALLER>,
}

impl CountedOutputs {
    /// Returns the newest refusal of `model`, to publish to other processes; `None` if the model refused no
    /// output within the last day.
    pub(crate) fn newest(&self, model: &str) -> Option<Timestamped<CountedOutput>> {
        self.refusals.lock().get(model).filter(is_current)
    }

    pub(crate) fn record(&self, model: &str, refusal: CountedOutput) {
        let mut refusals = self.refusals.lock();
        let before = refusals.get(model).filter(is_current);
        let refusal = Timestamped::superseding(before, wall_clock::unix_millis(), refusal);
        refusals.insert(model.to_owned(), refusal);
    }

    /// Merges a refusal that another process received, if any. The later one prevails.
    pub(crate) fn merge_remote(&self, model: &str, remote: Option<Timestamped<CountedOutput>>) {
        let Some(remote) = remote.filter(is_current) else {
            return;
        };
        let mut refusals = self.refusals.lock();
        let before = refusals.get(model).filter(is_current);
        if before < Some(remote) {
            refusals.insert(model.to_owned(), remote);
        }
    }
}

/// Whether a refusal is not expired, and no fast clock stamped it.
fn is_current(refusal: &Timestamped<CountedOutput>) -> bool {
    let now = wall_clock::unix_millis();
    refusal.is_at_or_after(now.saturating_sub(LIFETIME_MS)) && !refusal.is_ahead_of(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(limit: u32) -> CountedOutput {
        CountedOutput {
            limit: Tokens::new(limit),
            sample: None,
        }
    }

    fn stamped(at: u64, limit: u32) -> Timestamped<CountedOutput> {
        Timestamped::superseding(None, at, refusal(limit))
    }

    #[test]
    fn the_later_refusal_of_two_processes_prevails_until_it_expires() {
        let outputs = CountedOutputs::default();
        let newest = || outputs.newest("m").map(|refusal| refusal.value.limit.get());
        let now = wall_clock::unix_millis();
        outputs.merge_remote("m", Some(stamped(now - LIFETIME_MS - 1, 1)));
        outputs.merge_remote("m", Some(stamped(now + 2 * LIFETIME_MS, 2)));
        assert_eq!(newest(), None, "expired, and stamped by a fast clock");
        outputs.merge_remote("m", Some(stamped(now - 10, 3)));
        outputs.merge_remote("m", Some(stamped(now - 20, 4)));
        assert_eq!(newest(), Some(3));
        outputs.record("m", refusal(5));
        outputs.merge_remote("m", Some(stamped(now - 10, 3)));
        outputs.merge_remote("m", None);
        assert_eq!(newest(), Some(5));
        assert_eq!(outputs.newest("other"), None);
    }
}
