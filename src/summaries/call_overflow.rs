//! Judges the refusal of a summary call: whether the upstream states that the call is too long.

use bytes::Bytes;
use http::{StatusCode, Uri};
use longhaul_core::dialect::Dialect;
use longhaul_core::overflow::{
    ClassifierRules, ClassifierStep, Evidence, LimitKind, Overflow, ReplyClassifier, RequestFacts,
    RequestText, Verdict,
};
use longhaul_core::units::tokens::Tokens;

/// A summary call that the upstream refused as too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CallOverflow {
    /// Estimated size of the call.
    pub(crate) tokens: Tokens,
    /// Status of the refusal.
    pub(crate) status: StatusCode,
    /// Facts that the refusal states.
    pub(crate) overflow: Overflow,
}

/// Returns the overflow that `refusal`, the body of a reply with `status`, states about `call`.
/// `None` if the refusal states nothing about a window: words alone teach nothing.
pub(super) fn judge(
    (dialect, target): (Dialect, &Uri),
    call: &Bytes,
    (status, refusal): (StatusCode, &[u8]),
    rules: &ClassifierRules,
) -> Option<CallOverflow> {
    let conversation = dialect.read(call).ok()?;
    let model = conversation.model();
    let tokens = conversation.tokens();
    let facts = RequestFacts {
        tokens: tokens.get(),
        text: RequestText::new(call, target.path()),
        body_tokens: tokens.get(),
        model: &model,
        ..RequestFacts::default()
    };
    let mut classifier = ReplyClassifier::for_request(dialect, status.as_u16(), rules, facts)?;
    let verdict = match classifier.push(refusal) {
        ClassifierStep::Hold => classifier.finish(),
        ClassifierStep::Settled(verdict) => verdict,
    };
    let Verdict::Overflow(overflow) = verdict else {
        return None;
    };
    let is_window = overflow.evidence == Evidence::Stated && overflow.kind != LimitKind::Request;
    is_window.then_some(CallOverflow {
        tokens,
        status,
        overflow,
    })
}
