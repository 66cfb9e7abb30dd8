//! Size that a refusal states, and the check by arithmetic whether the prompt overflows.

use crate::overflow::{Evidence, LimitKind, Overflow, Verdict};

/// Size that a refusal states, in tokens. For [`LimitKind::Characters`], longhaul's own counts of the request
/// convert the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StatedSize {
    pub(super) kind: LimitKind,
    pub(super) limit: Option<u32>,
    /// Size of the prompt. `None` for a lower bound.
    pub(super) input: Option<u32>,
    pub(super) output: Option<u32>,
    /// Tokens beyond the limit.
    pub(super) excess: Option<u32>,
}

impl StatedSize {
    /// Returns the verdict on a refusal that states an overflow with this size.
    pub(super) fn verdict(self, evidence: Evidence) -> Verdict {
        let Self { kind, limit, input, output, excess } = self;
        if let (LimitKind::Window, Some(limit), Some(output)) = (kind, limit, output) {
            let fits_alone = |input: u32| input < limit && input.saturating_add(output) > limit;
            // No history is short enough if the output alone fills the window.
            if input.map_or(output >= limit, fits_alone) {
                return Verdict::OutputTooLarge { limit, input, output };
            }
        }
        Verdict::Overflow(Overflow { evidence, kind, excess, limit, output, used: input })
    }
}
