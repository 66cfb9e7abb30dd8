//! Reports for programs.

use serde::Serialize;

/// Renders a report as JSON with a trailing line break. A report holds only strings, numbers and
/// lists, so serialising cannot fail.
pub fn pretty_json(report: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(report);
    debug_assert!(json.is_ok(), "a report has no JSON form");
    json.unwrap_or_default() + "\n"
}
