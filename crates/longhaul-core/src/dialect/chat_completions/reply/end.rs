//! End of a reply: finish reason and usage, found by their keys in the last bytes.

use memchr::memmem::Finder;

use crate::dialect::reply::{EndFacts, FinishReason};
use crate::dialect::usage_object::{LlamaCppTimings, UsageObject};
use crate::json::last_values::{SearchTerm, last_values};

static FINISH_REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#""finish_reason""#));
static NATIVE_FINISH_REASON: SearchTerm =
    SearchTerm::new(|| Finder::new(r#""native_finish_reason""#));
/// End of every key that states a finish reason.
static REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#"_reason""#));
/// Anthropic's key, next to `finish_reason` or in its place.
static STOP_REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#""stop_reason""#));
static TIMINGS: SearchTerm = SearchTerm::new(|| Finder::new(r#""timings""#));
static USAGE: SearchTerm = SearchTerm::new(|| Finder::new(r#""usage""#));
static WINDOW_FULL: SearchTerm = SearchTerm::new(|| Finder::new(FinishReason::WINDOW_FULL));

/// Reads the facts near the top of a JSON text, which may lack its beginning.
pub(crate) fn read_end(json: &[u8]) -> EndFacts {
    let usage = last_values(json, &USAGE).find_map(|usage: UsageObject<'_>| usage.usage());
    let timings = || last_values(json, &TIMINGS).find_map(|all: LlamaCppTimings| all.usage());
    EndFacts {
        finish: finish_reason(json),
        usage: usage.or_else(timings),
    }
}

/// Returns the finish reason of the last choice in a JSON text. A full window takes precedence,
/// whichever field states it.
fn finish_reason(json: &[u8]) -> Option<FinishReason> {
    let stated: Vec<FinishReason> = last_values(json, &FINISH_REASON)
        .chain(last_values(json, &STOP_REASON))
        .collect();
    let native = last_values(json, &NATIVE_FINISH_REASON);
    let full = (stated.iter().copied())
        .chain(native)
        .find(|reason| *reason == FinishReason::WindowFull);
    full.or_else(|| stated.first().copied())
}

/// Whether any of these events may state a fact that `later` lacks, or a full window.
pub(crate) fn may_add_to(later: EndFacts, events: &[u8]) -> bool {
    WINDOW_FULL.occurs_in(events)
        || (later.finish.is_none() && may_state_finish_reason(events))
        || (later.usage.is_none() && may_state_usage(events))
}

/// Whether any of these events may state a finish reason. Many providers send a null reason in each
/// event.
fn may_state_finish_reason(events: &[u8]) -> bool {
    let states = |rest: &[u8]| {
        let value = rest.trim_ascii_start().strip_prefix(b":");
        value.is_some_and(|value| !value.trim_ascii_start().starts_with(b"null"))
    };
    REASON.text_after_each(events).any(states)
}

/// Whether any of these events may report token counts.
fn may_state_usage(events: &[u8]) -> bool {
    USAGE.occurs_in(events) || TIMINGS.occurs_in(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_finish_reason_is_ignored() {
        for none in [
            "{}",
            r#"{"finish_reason":null}"#,
            r#"{"stop_reason" : null}"#,
            r#""_reason""#,
        ] {
            assert!(!may_state_finish_reason(none.as_bytes()), "{none}");
        }
        for some in [
            r#"{"finish_reason":"stop"}"#,
            r#"{"native_finish_reason" : 1,"finish_reason":null}"#,
        ] {
            assert!(may_state_finish_reason(some.as_bytes()), "{some}");
        }
    }

    #[test]
    fn a_full_window_is_searched_for_even_if_all_facts_are_known() {
        let later = read_end(br#"{"finish_reason":"stop","usage":{"prompt_tokens":9}}"#);
        let full = br#"{"stop_reason":"model_context_window_exceeded"}"#;
        assert!(may_add_to(later, full));
        assert!(!may_add_to(
            later,
            br#"{"stop_reason":"end_turn","usage":{}}"#
        ));
    }

    #[test]
    fn usage_may_be_under_usage_or_timings() {
        assert!(may_state_usage(br#"{"usage":{}}"#));
        assert!(may_state_usage(br#"{"timings":{}}"#));
        assert!(!may_state_usage(br#"{"content":"b"}"#));
    }
}
