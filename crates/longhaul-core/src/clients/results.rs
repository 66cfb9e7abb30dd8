//! The user's words in the results of tools.

use super::{Row, is_listed, own_words, rows};
use memchr::memmem;
use serde_json::Value;
use std::borrow::Cow;

/// Maximum bytes of a result that is read as JSON. Values take several times as much memory.
const MAX_JSON: usize = 256 * 1024;

/// Maximum levels of values in answers.
const MAX_DEPTH: usize = 8;

/// Words by which the user speaks in the result of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResultWords<'t> {
    /// Answers of the user, each on a line, with its question if the result has the question.
    Answer(Cow<'t, str>),
    /// The user approved this plan. `None` if neither result nor arguments have the plan.
    Approved(Option<&'t str>),
    /// The user rejected the call for this reason.
    ///
    /// The words are certainly the user's only where [`answers_user`] holds: other results may imitate a
    /// client's words, so the reason is the outcome of its step, never a rule.
    Rejected(Cow<'t, str>),
}

/// Whether all words in a tool's results are the user's, or the client's own: no foreign text is among them.
pub(crate) fn answers_user(tool: &str) -> bool {
    is_listed("ask", tool) || is_listed("plan", tool)
}

/// Whether a result, undecoded and cut at any byte, may begin with the words of a rejection.
pub(crate) fn may_reject(raw_prefix: &str) -> bool {
    let kinds = ["rejected", "rejected-json"];
    let mut forms = kinds.iter().flat_map(|kind| rows(kind));
    forms.any(|row| may_begin(raw_prefix, &row.words))
}

/// Whether an undecoded text may begin with `words`. An escape of a code point may be any character.
fn may_begin(raw: &str, words: &str) -> bool {
    let mut raw = raw.trim_start();
    while let Some(rest) = raw.strip_prefix("\\n") {
        raw = rest.trim_start();
    }
    let mut raw = raw.chars();
    for word in words.chars() {
        let same = match raw.next() {
            None => return true,
            Some('\\') => match raw.next() {
                None | Some('u') => return true,
                Some('n') => word == '\n',
                Some(escaped) => word == escaped,
            },
            Some(plain) => word == plain,
        };
        if !same {
            return false;
        }
    }
    true
}

/// Returns the user's words in the result of a call. `arguments_plan` is the plan among the call's arguments.
///
/// `None` if the user says nothing: a tool's own output, an approval or a rejection without words.
pub(crate) fn in_result<'t>(
    tool: &str,
    arguments_plan: Option<&'t str>,
    text: &'t str,
) -> Option<ResultWords<'t>> {
    let text = text.trim();
    if let Some(reason) = rejection(text) {
        return (!reason.is_empty()).then_some(ResultWords::Rejected(reason));
    }
    if is_refused(text) {
        None
    } else if is_listed("plan", tool) {
        let mut approvals = rows("approved").iter();
        approvals.find(|row| text.starts_with(&row.words))?;
        let texts = rows("plan-text").iter();
        let mut texts = texts.filter_map(|row| between(text, row));
        Some(ResultWords::Approved(texts.next().or(arguments_plan)))
    } else if is_listed("ask", tool) {
        answers(text).map(ResultWords::Answer)
    } else {
        None
    }
}

/// Returns the words behind the first words of a row, up to its last words.
fn between<'t>(text: &'t str, row: &Row) -> Option<&'t str> {
    let at = memmem::find(text.as_bytes(), row.words.as_bytes())?;
    let words = text.get(at + row.words.len()..)?;
    Some(before_end(words, row))
}

/// Returns the words before a row's last words, if these are there.
fn before_end<'t>(words: &'t str, row: &Row) -> &'t str {
    let end = words.rfind(&row.end).filter(|_| !row.end.is_empty());
    words
        .get(..end.unwrap_or(words.len()))
        .unwrap_or_default()
        .trim()
}

/// Returns the reason for which the user rejected a call; empty without one. `None` if the result is no rejection.
fn rejection(text: &str) -> Option<Cow<'_, str>> {
    let mut reasons = rows("rejected").iter();
    let reason = reasons.find_map(|row| Some(before_end(text.strip_prefix(&row.words)?, row)));
    reason.map(Cow::Borrowed).or_else(|| {
        let mut objects = rows("rejected-json").iter();
        let row = objects.find(|row| text.starts_with(&row.words))?;
        let object = json(text)?;
        let reason = object
            .get(&row.end)
            .and_then(Value::as_str)
            .unwrap_or_default();
        Some(Cow::Owned(reason.trim().to_owned()))
    })
}

/// Whether a client says that the user gave no answer or no reason, or that the call failed.
fn is_refused(text: &str) -> bool {
    rows("refused")
        .iter()
        .any(|row| text.starts_with(&row.words))
}

fn json(text: &str) -> Option<Value> {
    let text = Some(text).filter(|text| text.starts_with('{') && text.len() <= MAX_JSON);
    serde_json::from_str(text?).ok()
}

/// Returns the answers in the result of a tool that asks the user.
fn answers(text: &str) -> Option<Cow<'_, str>> {
    let mut forms = rows("answered").iter();
    let answers = forms.find_map(|row| Some(before_end(text.strip_prefix(&row.words)?, row)));
    let answers = answers.unwrap_or(text);
    if answers.starts_with('"') && answers.contains("\"=") {
        return Some(Cow::Owned(pairs(answers)));
    }
    if let Some(object) = json(answers) {
        let mut lines = Vec::new();
        let answers = object.get("answers").unwrap_or(&object);
        list(None, answers, MAX_DEPTH, &mut lines);
        return (!lines.is_empty()).then(|| Cow::Owned(lines.join("\n")));
    }
    match own_words(answers).as_slice() {
        [] => None,
        [words] => Some(Cow::Borrowed(words)),
        parts => Some(Cow::Owned(parts.join("\n"))),
    }
}

/// Lists the texts in answers, each with the name of its question.
fn list(name: Option<&str>, value: &Value, depth: usize, lines: &mut Vec<String>) {
    let depth = depth.saturating_sub(1);
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            let name = name.map(|name| format!("{name} → ")).unwrap_or_default();
            lines.push(format!("{name}{}", text.trim()));
        }
        Value::Array(values) if depth > 0 => {
            for value in values {
                list(name, value, depth, lines);
            }
        }
        Value::Object(members) if depth > 0 => {
            for (key, value) in members {
                // An index names no question; a member of an answer names none either.
                let key = Some(key.as_str()).filter(|key| key.parse::<u32>().is_err());
                list(name.or(key), value, depth, lines);
            }
        }
        _ => {}
    }
}

/// Returns `"question"="answer"` pairs, each on a line. The client escapes no quotation marks.
fn pairs(text: &str) -> String {
    let mut lines = Vec::new();
    let mut question = text.get(1..).unwrap_or_default();
    let mut parts = text.split("\"=");
    if let Some(first) = parts.next() {
        question = first.trim_start_matches('"');
    }
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let (answer, following) = if parts.peek().is_some() {
            let split = part
                .rsplit_once("\", \"")
                .or_else(|| part.rsplit_once(", \""));
            split.unwrap_or((part, ""))
        } else {
            (part, "")
        };
        lines.push(format!("{question} → {}", choice(answer)));
        question = following;
    }
    lines.join("\n")
}

/// Returns an answer without the preview of the option, which is the agent's text.
fn choice(answer: &str) -> String {
    let (label, rest) = answer
        .split_once(" selected preview:")
        .unwrap_or((answer, answer));
    let notes = rest.rsplit_once(" notes: ").map(|(_, notes)| notes.trim());
    let label = label.split(" notes: ").next().unwrap_or_default();
    let label = label.trim().trim_matches('"');
    match notes {
        Some(notes) => format!("{label}; {notes}"),
        None => label.to_owned(),
    }
}
