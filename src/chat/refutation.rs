//! Suspicions that the reply to a retry refutes.

use http::StatusCode;

use crate::chat::refusal::Retry;
use crate::exchange::reply_gate::JudgedReply;
use crate::metrics::RetryOutcome;
use crate::summaries::is_overload_status;
use crate::upstream::UpstreamBody;
use longhaul_core::overflow::{Evidence, Overflow, Suspicion, Verdict};

/// Classifies the reply to an attempt.
pub(super) fn outcome(judged: &JudgedReply<UpstreamBody>) -> RetryOutcome {
    match judged.verdict {
        Verdict::Fine if judged.broke_off => RetryOutcome::BrokeOff,
        Verdict::Fine if judged.response.status().is_success() => RetryOutcome::Accepted,
        Verdict::Overflow(_) => RetryOutcome::Overflow,
        Verdict::Failed
        | Verdict::BodyTooLarge(_)
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::OutputAboveCap(_)
        | Verdict::OutputTooLarge { .. }
        | Verdict::StaleThinking
        | Verdict::TextTooLong { .. }
        | Verdict::TooMuchMedia
        | Verdict::Unexplained(_) => RetryOutcome::Refused,
    }
}

/// Whether the reply to a retry suggests that the first reply was not an overflow. The client then
/// receives the first reply.
pub(super) fn shows_other_cause(retry: Retry, judged: &JudgedReply<UpstreamBody>) -> bool {
    let is_suspicion = retry.evidence().is_some_and(|evidence| evidence != Evidence::Stated);
    let drops_media = matches!(retry, Retry::FewerImages { .. });
    (is_suspicion && outcome(judged) != RetryOutcome::Accepted)
        || (drops_media && refutes_old_media(judged.response.status(), judged.verdict))
}

/// Returns the suspicion that the refusal of a retry refutes, if any.
pub(super) fn refuted_suspicion(
    retry: Retry,
    judged: &JudgedReply<UpstreamBody>,
) -> Option<Suspicion> {
    let (status, verdict) = (judged.response.status(), judged.verdict);
    if let Some(Evidence::Suspected(suspicion)) = retry.evidence() {
        return (!judged.broke_off && refutes_size(status, verdict)).then_some(suspicion);
    }
    let Retry::FewerImages { suspicion } = retry else { return None };
    refutes_old_media(status, verdict).then_some(suspicion)
}

/// Whether the refusal of a request without old images and documents shows that others are at fault. After
/// any other refusal, the client learns more from the second reply.
fn refutes_old_media(status: StatusCode, verdict: Verdict) -> bool {
    match verdict {
        Verdict::Malformed | Verdict::StaleThinking | Verdict::TooMuchMedia => true,
        Verdict::Unexplained(_) => is_refusal(status),
        Verdict::Failed
        | Verdict::Fine
        | Verdict::OutputAboveCap(_)
        | Verdict::OutputTooLarge { .. }
        | Verdict::Overflow(_)
        | Verdict::TextTooLong { .. }
        | Verdict::BodyTooLarge(_) => false,
    }
}

/// Whether the refusal of a smaller request shows that the size is not the cause. Throttling and a server
/// that failed show nothing. A stated overflow or a second byte limit confirms the suspicion.
fn refutes_size(status: StatusCode, verdict: Verdict) -> bool {
    match verdict {
        Verdict::Overflow(Overflow { evidence: Evidence::Stated, .. })
        | Verdict::BodyTooLarge(_) => false,
        // The words, or the silence, return with any status: a smaller request cures nothing.
        Verdict::Overflow(Overflow { evidence: Evidence::Suspected(_), .. })
        | Verdict::Unexplained(Some(_)) => true,
        Verdict::Overflow(Overflow { evidence: Evidence::EmptyReply, .. })
        | Verdict::Failed
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::OutputAboveCap(_)
        | Verdict::OutputTooLarge { .. }
        | Verdict::StaleThinking
        | Verdict::TextTooLong { .. }
        | Verdict::TooMuchMedia
        | Verdict::Unexplained(None) => is_refusal(status),
    }
}

/// Whether a status blames the request.
fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() && !is_overload_status(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::units::body_limits::BodyLimits;

    #[test]
    fn a_suspicion_that_a_smaller_request_does_not_cure_is_refuted_under_any_status() {
        let suspected = Verdict::Overflow(Overflow {
            evidence: Evidence::Suspected(Suspicion::Words(7)),
            ..Overflow::stated(None, None)
        });
        for status in [200, 400, 422, 500, 503] {
            let status = StatusCode::from_u16(status).unwrap();
            assert!(refutes_size(status, suspected), "{status}");
            let unread = Verdict::Unexplained(Some(Suspicion::Words(7)));
            assert!(refutes_size(status, unread), "{status}");
        }
    }

    #[test]
    fn throttling_a_failed_server_and_a_stated_overflow_refute_nothing() {
        let stated = Verdict::Overflow(Overflow::stated(None, None));
        for (status, verdict) in [
            (200, Verdict::Failed),
            (400, stated),
            (413, Verdict::BodyTooLarge(BodyLimits::UNKNOWN)),
            (429, Verdict::Fine),
            (500, Verdict::Fine),
            (500, stated),
            (503, Verdict::Fine),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert!(!refutes_size(status, verdict), "{status} {verdict:?}");
        }
        assert!(refutes_size(StatusCode::BAD_REQUEST, Verdict::Unexplained(None)));
    }
}
