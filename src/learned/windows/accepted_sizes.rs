//! Sizes of accepted requests, as proof that a smaller request fits.

use longhaul_core::units::tokens::Tokens;

/// Size of a request in estimated tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RequestSize {
    pub(crate) tokens: Tokens,
    /// Size of the tool schemas. The estimate of schemas is far from any tokenizer's count, so sizes are
    /// compared only between requests with the same tools.
    pub(crate) tools: Tokens,
}

/// Maximum sets of tools that are distinguished for one model. An agent has few: its own, those of
/// its helpers, and none for titles.
const TOOL_SETS: usize = 4;

/// Percentage of a request's size that an accepted request must have to prove that the request fits.
const PROOF_PERCENT: u32 = 110;

/// The largest accepted request for each set of tools; the set used last comes first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct AcceptedSizes {
    largest: [Option<RequestSize>; TOOL_SETS],
}

impl AcceptedSizes {
    pub(super) fn record(&mut self, accepted: RequestSize) {
        let has_tools =
            |one: &Option<RequestSize>| one.is_some_and(|one| one.tools == accepted.tools);
        let at = self.largest.iter().position(has_tools);
        let place = at.unwrap_or(TOOL_SETS - 1);
        if let Some(newer) = self.largest.get_mut(..=place) {
            newer.rotate_right(1);
        }
        if let Some(first) = self.largest.first_mut() {
            let before = first.filter(|_| at.is_some());
            let tokens =
                before.map_or(accepted.tokens, |before| before.tokens.max(accepted.tokens));
            *first = Some(RequestSize { tokens, ..accepted });
        }
    }

    /// Caps all sizes at a window: a larger accepted request proves nothing.
    pub(super) fn cap(&mut self, window: Tokens) {
        for size in self.largest.iter_mut().flatten() {
            size.tokens = size.tokens.min(window);
        }
    }

    /// Whether an accepted request with the same tools was larger by a tenth or more.
    pub(super) fn prove(&self, request: RequestSize) -> bool {
        let mut with_tools = self.largest.iter().flatten();
        with_tools.any(|accepted| {
            accepted.tools == request.tools
                && request.tokens.percent(PROOF_PERCENT) <= accepted.tokens
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(tokens: u32, tools: u32) -> RequestSize {
        RequestSize { tokens: Tokens::new(tokens), tools: Tokens::new(tools) }
    }

    #[test]
    fn accepted_request_proves_a_tenth_smaller_one_with_the_same_tools() {
        let mut sizes = AcceptedSizes::default();
        sizes.record(size(1_100, 7));
        assert!(sizes.prove(size(1_000, 7)));
        assert!(!sizes.prove(size(1_001, 7)));
        assert!(!sizes.prove(size(1_000, 8)));
        sizes.record(size(500, 7));
        assert!(sizes.prove(size(1_000, 7)));
        sizes.cap(Tokens::new(1_000));
        assert!(!sizes.prove(size(1_000, 7)));
    }

    #[test]
    fn the_sets_of_tools_used_last_are_kept() {
        let mut sizes = AcceptedSizes::default();
        for tools in [0, 1, 2, 3, 0, 4] {
            sizes.record(size(1_100 + tools, tools));
        }
        let kept = [0, 1, 2, 3, 4].map(|tools| sizes.prove(size(1_000, tools)));
        assert_eq!(kept, [true, false, true, true, true]);
    }
}
