//! Models whose server counts the requested output as part of the window, learned from refusals.

use std::time::Duration;

use crate::learned::model_knowledge::MODELS_PER_CALLER;
use longhaul_core::collections::two_generation_cache::TwoGenerationCache;
use longhaul_core::units::tokens::Tokens;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Lifetime of a refusal, that of a learned window. A gateway may send later requests to a server with
/// another window.
const LIFETIME: Duration = Duration::from_hours(24);

/// Numbers of a request that was refused for its output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CountedOutput {
    /// The window, in the upstream's tokens.
    pub(crate) limit: Tokens,
    /// The prompt, in the upstream's tokens.
    pub(crate) input: Tokens,
    /// Plain estimate of the same prompt.
    pub(crate) estimate: Tokens,
}

/// Estimate below which a count says little about larger prompts: frames outweigh the text.
const SMALL_PROMPT: Tokens = Tokens::new(2_000);

impl CountedOutput {
    /// Returns the upstream's tokens of a prompt with this estimate. The counted prompt may have held images
    /// or documents, which the estimate does not count, so its ratio is bounded.
    pub(crate) fn input_of(&self, estimate: Tokens) -> Tokens {
        let least = if self.estimate < SMALL_PROMPT {
            130
        } else {
            50
        };
        let input = self
            .input
            .clamp(self.estimate.percent(least), self.estimate.percent(200));
        estimate.scaled(input, self.estimate)
    }
}

/// The newest such refusal of each model of one caller.
pub(crate) struct CountedOutputs {
    refusals: Mutex<TwoGenerationCache<String, (Instant, CountedOutput)>>,
}

impl Default for CountedOutputs {
    fn default() -> Self {
        Self {
            refusals: Mutex::new(TwoGenerationCache::new(MODELS_PER_CALLER)),
        }
    }
}

impl CountedOutputs {
    /// Returns the newest refusal of `model`; `None` if the model refused no output within the last
    /// day.
    pub(crate) fn newest(&self, model: &str) -> Option<CountedOutput> {
        let (at, refusal) = self.refusals.lock().get(model)?;
        (at.elapsed() < LIFETIME).then_some(refusal)
    }

    /// Records a refusal of `model`.
    pub(crate) fn record(&self, model: &str, refusal: CountedOutput) {
        self.refusals
            .lock()
            .insert(model.to_owned(), (Instant::now(), refusal));
    }
}
