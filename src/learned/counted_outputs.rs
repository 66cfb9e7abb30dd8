//! Models whose server counts the requested output as part of the window, learned from refusals.

use std::time::Duration;

use crate::learned::model_knowledge::MODELS_PER_CALLER;
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::token_ratio::CountSample;
use tokio::time::Instant;

/// Lifetime of a refusal, that of a learned window. A gateway may send later requests to another server.
const LIFETIME: Duration = Duration::from_hours(24);

/// Numbers of a request that was refused for its output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CountedOutput {
    /// The window, in the upstream's tokens.
    pub(crate) limit: Tokens,
    /// Size of the prompt; `None` if the upstream did not count all of it.
    pub(crate) sample: Option<CountSample>,
}

/// The newest such refusal of each model of one caller.
#[derive(Default)]
pub(crate) struct CountedOutputs {
    refusals: LockedCache<String, (Instant, CountedOutput), MODELS_PER_CALLER>,
}

impl CountedOutputs {
    /// Returns the newest refusal of `model`; `None` if the model refused no output within the last
    /// day.
    pub(crate) fn newest(&self, model: &str) -> Option<CountedOutput> {
        let (at, refusal) = self.refusals.lock().get(model)?;
        (at.elapsed() < LIFETIME).then_some(refusal)
    }

    pub(crate) fn record(&self, model: &str, refusal: CountedOutput) {
        self.refusals
            .lock()
            .insert(model.to_owned(), (Instant::now(), refusal));
    }
}
