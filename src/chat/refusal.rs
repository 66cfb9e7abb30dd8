//! A refused attempt, and the reason for its retry.

use http::StatusCode;

use crate::explanation::{PlanCause, Refusal};
use crate::metrics::RetryReason;
use crate::report::ChatReport;
use longhaul_core::conversation::Conversation;
use longhaul_core::overflow::{Evidence, LimitKind, Overflow, Suspicion};
use longhaul_core::planning::recovery::RecoveryStep;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::placement::Placement;
use longhaul_core::units::body_limits::BodyLimits;
use longhaul_core::units::tokens::Tokens;

/// Reason for a retry, with the evidence that its outcome confirms.
#[derive(Clone, Copy, Debug)]
pub(super) enum Retry {
    /// The first reply was classified as an overflow.
    Compacted { step: RecoveryStep, refused: RefusedAttempt },
    /// The first placement of the summary was refused and the original is estimated not to fit. The
    /// retry uses the other placement.
    OtherPlacement,
    /// The first reply refused the length of one text. The retry has longer results clipped.
    ClippedTexts,
    /// The first reply refused images or documents. The retry has markers in place of old ones.
    FewerImages {
        /// Suspicion that the old ones are at fault.
        suspicion: Suspicion,
    },
    /// The rewrite was refused. The original is estimated to fit, or the window is unknown.
    Original {
        why: RewriteRefusal,
        /// Placement of the refused summary. If the original is accepted, the placement was the
        /// cause.
        suspected: Option<Placement>,
    },
    /// The provider's own item was refused. The retry has the digest in its place.
    RefusedItem,
    /// The history fits; only the requested output is too large.
    SmallerOutput {
        /// Evidence that the window is smaller than assumed, if any.
        refused: Option<RefusedAttempt>,
    },
    /// The thinking after an edit was refused, because the provider bound it to other bytes. The
    /// retry is the same edit without that thinking.
    WithoutStaleThinking,
}

/// A suspected overflow. Only a smaller request that is accepted confirms the overflow: an error
/// may quote text of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusedAttempt {
    /// Size of the refused request.
    pub(super) tokens: Tokens,
    /// Window in force when the request was planned.
    pub(super) window: Tokens,
    pub(super) status: StatusCode,
    pub(super) overflow: Overflow,
    /// Limits on the body that the refusal shows.
    pub(super) body: BodyLimits,
}

/// Kind of refusal of a rewritten request.
#[derive(Clone, Copy, Debug)]
pub(super) enum RewriteRefusal {
    /// With cache marks that longhaul added. They are suspected first.
    CacheMarks,
    Malformed,
    /// For an unknown reason.
    Unexplained,
}

impl RefusedAttempt {
    pub(super) fn refusal(&self) -> Refusal {
        Refusal {
            tokens: self.tokens,
            counted: self.overflow.prompt_size(),
            limit: self.overflow.limit,
            status: self.status.as_u16(),
        }
    }

    /// Whether the reply states that the request exceeds the window.
    pub(super) fn states_window(&self) -> bool {
        self.overflow.evidence == Evidence::Stated && !self.is_request_limit()
    }

    /// Whether the upstream refused the bytes or the messages of the request, not its tokens.
    pub(super) fn is_body_limit(&self) -> bool {
        self.body != BodyLimits::UNKNOWN
    }

    /// Whether the limit bounds one request of this account.
    pub(super) fn is_request_limit(&self) -> bool {
        self.overflow.kind == LimitKind::Request
    }
}

impl Retry {
    pub(super) fn reason(&self) -> RetryReason {
        match self {
            Self::Compacted { step: RecoveryStep::Images, .. } | Self::FewerImages { .. } => {
                RetryReason::FewerBytes
            }
            Self::Compacted { .. } | Self::OtherPlacement | Self::RefusedItem => {
                RetryReason::Compacted
            }
            Self::ClippedTexts => RetryReason::ClippedTexts,
            Self::Original { .. } => RetryReason::Original,
            Self::SmallerOutput { .. } => RetryReason::SmallerOutput,
            Self::WithoutStaleThinking => RetryReason::WithoutStaleThinking,
        }
    }

    /// Adds the retry's actions and sizes to `report`; the conversation was sent as `view`.
    pub(super) fn add_to_report(
        self,
        conversation: &Conversation<'_>,
        view: &ForwardedView,
        report: &mut ChatReport,
    ) {
        report.add(self.reason().action());
        match self {
            Self::Compacted { step, .. } => report.add_recovery(conversation, view, step),
            Self::ClippedTexts
            | Self::FewerImages { .. }
            | Self::Original { .. }
            | Self::OtherPlacement
            | Self::RefusedItem
            | Self::WithoutStaleThinking => report.update_sizes(conversation, view),
            Self::SmallerOutput { .. } => {}
        }
    }

    /// Returns the event that led to this retry.
    pub(super) fn cause(self) -> PlanCause {
        match self {
            Self::Compacted { step: RecoveryStep::Images, .. } => PlanCause::FewerBytes,
            Self::Compacted { refused, .. } => PlanCause::Overflow(refused.refusal()),
            Self::OtherPlacement => PlanCause::OtherPlacement,
            Self::ClippedTexts => PlanCause::ClippedTexts,
            Self::FewerImages { .. } => PlanCause::FewerImages,
            Self::Original { .. } | Self::RefusedItem => PlanCause::RewriteRefused,
            Self::SmallerOutput { .. } => PlanCause::SmallerOutput,
            Self::WithoutStaleThinking => PlanCause::StaleThinking,
        }
    }

    /// Returns the evidence of the overflow that this retry follows, if any.
    pub(super) fn evidence(self) -> Option<Evidence> {
        if let Self::Compacted { refused, .. } = self {
            Some(refused.overflow.evidence)
        } else {
            None
        }
    }
}
