//! End of a reply: finish reason and usage, found by their keys in the last bytes.

use memchr::memmem::Finder;
use serde::Deserialize;

use super::finish_reason;
use crate::dialect::reply::{EndFacts, FinishReason};
use crate::dialect::usage_object::UsageObject;
use crate::json::last_values::{SearchTerm, last_values};
use crate::json::lenient::Lenient;

static INCOMPLETE_DETAILS: SearchTerm = SearchTerm::new(|| Finder::new(r#""incomplete_details""#));
static STATUS: SearchTerm = SearchTerm::new(|| Finder::new(r#""status""#));
static USAGE: SearchTerm = SearchTerm::new(|| Finder::new(r#""usage""#));
/// Start of the type of every event that ends a stream, and of some others.
static COMPLETE: SearchTerm = SearchTerm::new(|| Finder::new("complete"));

/// Types of closing events, with the status of their response.
const CLOSING_TYPES: [(&str, &str); 3] = [
    (r#""response.completed""#, "completed"),
    (r#""response.failed""#, "failed"),
    (r#""response.incomplete""#, "incomplete"),
];

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"), default)]
struct Details<'a> {
    reason: Lenient<&'a str>,
}

/// Reads the facts near the top of a JSON text, which may lack its beginning. Items of the output
/// have statuses too, at the depth of those of a response.
pub(crate) fn read_end(json: &[u8]) -> EndFacts {
    let usage = last_values(json, &USAGE).find_map(|usage: UsageObject<'_>| usage.usage());
    let mut details = last_values(json, &INCOMPLETE_DETAILS);
    let reason = details.find_map(|details: Details<'_>| details.reason.0);
    let statuses: Vec<&str> = last_values(json, &STATUS).collect();
    let status = match reason {
        Some(_) => Some("incomplete"),
        None => ["incomplete", "failed", "completed"]
            .into_iter()
            .find(|it| statuses.contains(it)),
    };
    EndFacts {
        finish: status.and_then(|status| finish_reason(status, reason, false)),
        usage,
    }
}

/// Returns the finish reason that the first bytes of a closing event state. Returns `None` for any
/// other event.
pub(crate) fn finish_from_start(event: &[u8]) -> Option<FinishReason> {
    let start = String::from_utf8_lossy(event);
    let mut types = CLOSING_TYPES.into_iter();
    let (_, status) = types.find(|(name, _)| start.contains(name))?;
    let reason = start
        .split_once(r#""incomplete_details""#)
        .and_then(|(_, rest)| {
            let details = rest.trim_start().strip_prefix(':')?.trim_start();
            let mut values = serde_json::Deserializer::from_str(details).into_iter::<Details<'_>>();
            values.next()?.ok()?.reason.0
        });
    finish_reason(status, reason, false)
}

/// Whether any of these events may state a fact that `later` lacks.
pub(crate) fn may_add_to(later: EndFacts, events: &[u8]) -> bool {
    (later.finish.is_none() && COMPLETE.occurs_in(events))
        || (later.usage.is_none() && USAGE.occurs_in(events))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_closing_event_states_usage() {
        let end = br#"s":[]}],"usage":{"input_tokens":51097,"input_tokens_details":{"cached_tokens":49792},"output_tokens":12,"total_tokens":51109},"user":null,"metadata":{}}}"#;
        let facts = read_end(end);
        let usage = facts.usage.unwrap();
        assert_eq!(
            (usage.input, usage.output, usage.cached),
            (51_097, Some(12), Some(49_792))
        );
        assert_eq!(facts.finish, None);
    }

    #[test]
    fn the_start_of_a_closing_event_states_the_finish_reason() {
        let start = |event_type: &str, details: &str| {
            let event = format!(
                r#"{{"type":"{event_type}","sequence_number":9,"response":{{"id":"resp_1","object":"response","incomplete_details":{details},"instructions":"be"#
            );
            finish_from_start(event.as_bytes())
        };
        assert_eq!(
            start("response.completed", "null"),
            Some(FinishReason::Stop)
        );
        assert_eq!(
            start("response.incomplete", r#"{"reason":"max_output_tokens"}"#),
            Some(FinishReason::Length)
        );
        assert_eq!(
            start("response.incomplete", r#"{"reason":"content_filter"}"#),
            Some(FinishReason::Other)
        );
        assert_eq!(start("response.output_item.done", "null"), None);
    }

    #[test]
    fn a_whole_response_states_usage_and_finish_reason() {
        for (status, details, expect) in [
            ("completed", "null", Some(FinishReason::Stop)),
            (
                "incomplete",
                r#"{"reason":"max_output_tokens"}"#,
                Some(FinishReason::Length),
            ),
            ("in_progress", "null", None),
        ] {
            let body = format!(
                r#"{{"object":"response","status":"{status}","incomplete_details":{details},"output":[],"usage":{{"input_tokens":1,"output_tokens":0}}}}"#
            );
            let facts = read_end(body.as_bytes());
            assert_eq!(facts.finish, expect, "{status}");
            assert_eq!(facts.usage.map(|usage| usage.input), Some(1));
        }
    }
}
