//! Facts at the end of a reply: stop reason and usage, found by their keys in the last bytes.

use memchr::memmem::Finder;
use serde_json::value::RawValue;

use crate::dialect::chat_completions::reply::end as chat;
use crate::dialect::reply::EndFacts;
use crate::dialect::usage::Usage;
use crate::dialect::usage_object::UsageObject;
use crate::json::last_values::{SearchTerm, last_values};
use crate::json::lenient::parse;

static MESSAGE_START: SearchTerm = SearchTerm::new(|| Finder::new(r#""message_start""#));
static USAGE: SearchTerm = SearchTerm::new(|| Finder::new(r#""usage""#));

/// Reads the facts near the top of a JSON text, which may lack its beginning.
pub(crate) fn read_end(json: &[u8]) -> EndFacts {
    let usage = last_values(json, &USAGE).find_map(read_usage);
    let usage = usage.map(|usage| {
        if MESSAGE_START.occurs_in(json) {
            usage.without_output()
        } else {
            usage
        }
    });
    EndFacts {
        usage,
        ..chat::read_end(json)
    }
}

/// Whether any of these events may state a fact that `later` lacks, or a full window.
pub(crate) fn may_add_to(later: EndFacts, events: &[u8]) -> bool {
    let usage = later.usage.filter(Usage::counts_prompt);
    chat::may_add_to(EndFacts { usage, ..later }, events)
}

/// Reads a `usage` object. The last one of a stream may count the output alone; the prompt is zero
/// then.
pub(super) fn read_usage(json: &RawValue) -> Option<Usage> {
    let usage: UsageObject<'_> = parse(json)?;
    usage.usage().or_else(|| {
        Some(Usage {
            output: Some(usage.output()?),
            ..Usage::default()
        })
    })
}
