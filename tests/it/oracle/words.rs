//! The wordings that clearing reads and writes, restated.

use serde_json::Value;

/// The plain placeholder of a cleared result.
pub(crate) const CLEARED: &str = "[Old tool result content cleared]";

/// Arguments that identify a call, the most specific first.
const TELLING: [&str; 19] = [
    "path",
    "file_path",
    "filePath",
    "filepath",
    "filename",
    "file",
    "target_file",
    "absolute_path",
    "notebook_path",
    "relative_path",
    "command",
    "cmd",
    "pattern",
    "query",
    "url",
    "script",
    "code",
    "input",
    "name",
];

/// Returns the subject of a call: its most specific argument that is a non-empty string.
pub(crate) fn about(arguments: Option<&str>) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments?).ok()?;
    let telling = TELLING.iter().filter_map(|key| arguments.get(key));
    telling
        .chain(arguments.as_object()?.values())
        .filter_map(Value::as_str)
        .find(|text| !text.is_empty())
        .map(str::to_owned)
}

/// Builds the placeholder that describes the cleared result; the plain one if the tool has no name.
pub(crate) fn described(tool: Option<&str>, about: Option<&str>, tokens: usize) -> String {
    let clip = |text: &str, length: usize| -> String {
        let line = text.replace('\n', " ");
        line.chars().take(length).collect()
    };
    let Some(tool) = tool.filter(|tool| !tool.is_empty()) else {
        return CLEARED.to_owned();
    };
    let mut words = vec![clip(tool, 64)];
    words.extend(about.map(|about| clip(about, 120)));
    format!("[Old tool result content cleared: {}, about {tokens} tokens]", words.join(" "))
}

/// Whether a text is a placeholder, longhaul's own or one like it.
pub(crate) fn is_placeholder(text: &str) -> bool {
    // 245 characters is the length of the longest placeholder.
    let described = text.starts_with("[Old tool result content cleared:")
        && text.ends_with(']')
        && text.chars().count() <= 245;
    text == CLEARED || described
}

/// Whether a text only refers to an earlier read.
pub(crate) fn points_back(text: &str) -> bool {
    const PHRASES: [&str; 5] = [
        "unchanged since",
        "not changed since",
        "not been modified since",
        "already been read",
        "identical to the previous read",
    ];
    let short = text.chars().count() / 4 <= 125;
    short && PHRASES.iter().any(|p| text.to_lowercase().contains(p))
}

/// Whether a text reports a failure.
pub(crate) fn is_failure(text: &str) -> bool {
    const OPENINGS: [&str; 5] =
        ["error", "fatal", "traceback (most recent call last)", "failed", "panic"];
    let text = text.trim_start().to_lowercase();
    OPENINGS.iter().any(|opening| text.starts_with(opening))
}
