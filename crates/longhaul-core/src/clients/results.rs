//! The user's words in the results of tools.

use super::own_words::{MAX_RESULT_LINE, result_line};
use super::{is_listed, own_words, row_of, rows, stripped};
use serde_json::Value;
use std::borrow::Cow;

/// Maximum bytes of a result that is read as JSON. Values take several times as much memory.
const MAX_JSON: usize = 256 * 1024;

/// Words by which the user speaks in the result of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResultWords<'t> {
    /// Answers of the user, each on a line, behind its question if the result has the question.
    Answer(Cow<'t, str>),
    /// The user approved this plan. `None` if neither result nor arguments have the plan.
    Approved(Option<Cow<'t, str>>),
    /// The user rejected the call for this reason.
    ///
    /// Only where [`answers_user`] holds are these certainly the user's words. Other results may imitate those
    /// of a client: there, the reason is the outcome of its step, and never a rule.
    Rejected(Cow<'t, str>),
}

/// Whether a tool's results hold no foreign text: tools that ask the user or show a plan.
pub(crate) fn answers_user(tool: &str) -> bool {
    is_listed("ask", tool) || is_listed("plan", tool)
}

/// Whether a result may begin with the words of a rejection. `raw` is undecoded, and cut at any byte.
pub(crate) fn may_reject(raw: &str) -> bool {
    let spaces = ["\\n", "\\r", "\\t", " "];
    let start = raw.get(..raw.floor_char_boundary(MAX_RESULT_LINE));
    let start = start.filter(|start| start.starts_with('['));
    let line = start.and_then(|start| start.find("] Result:"));
    let mut raw = line.and_then(|at| raw.get(at + "] Result:".len()..)).unwrap_or(raw);
    while let Some(rest) = spaces.iter().find_map(|space| raw.strip_prefix(space)) {
        raw = rest;
    }
    let mut forms = rows("rejected").iter().chain(rows("rejected-json"));
    forms.any(|row| {
        let mut raw = raw.chars();
        row.words.chars().all(|word| match raw.next() {
            // A cut, or an escape of any character.
            None => true,
            Some('\\') => match raw.next() {
                None | Some('u') => {
                    raw = "".chars();
                    true
                }
                Some('n') => word == '\n',
                Some(escaped) => word == escaped,
            },
            Some(plain) => word == plain,
        })
    })
}

/// Returns the user's words in the result of a call. `arguments_plan` is the plan among the call's arguments.
///
/// `None` for a tool's own output, and for an answer or a rejection without words.
pub(crate) fn in_result<'t>(
    tool: &str,
    arguments_plan: Option<&'t str>,
    text: &'t str,
) -> Option<ResultWords<'t>> {
    let text = result_line(text).map_or_else(|| text.trim(), |(_, result)| result);
    if let Some(reason) = rejection(text) {
        return (!reason.is_empty()).then_some(ResultWords::Rejected(reason));
    }
    if row_of("refused", text).is_some() {
        None
    } else if is_listed("plan", tool) {
        row_of("approved", text)?;
        let mut marks = rows("plan-text").iter();
        let plan = marks.find_map(|row| Some(text.split_once(&row.words)?.1.trim()));
        let plan = plan.or(arguments_plan).map(Cow::Borrowed);
        Some(ResultWords::Approved(plan))
    } else if is_listed("ask", tool) {
        answers(text).map(ResultWords::Answer)
    } else {
        None
    }
}

/// Returns the reason for which the user rejected a call; empty without one. `None` if the result is no rejection.
fn rejection(text: &str) -> Option<Cow<'_, str>> {
    stripped("rejected", text).map(Cow::Borrowed).or_else(|| {
        let row = row_of("rejected-json", text)?;
        let object = json(text)?;
        let reason = object.get(&row.end).and_then(Value::as_str).unwrap_or_default();
        Some(Cow::Owned(reason.trim().to_owned()))
    })
}

fn json(text: &str) -> Option<Value> {
    let text = Some(text).filter(|text| text.starts_with('{') && text.len() <= MAX_JSON);
    serde_json::from_str(text?).ok()
}

/// Returns the answers in the result of a tool that asks the user.
fn answers(text: &str) -> Option<Cow<'_, str>> {
    let answers = stripped("answered", text).unwrap_or(text);
    let lines = if let Some(object) = json(answers) {
        let mut lines = Vec::new();
        list(None, object.get("answers").unwrap_or(&object), &mut lines);
        lines
    } else if answers.starts_with('"') && answers.contains("\"=") {
        pairs(answers)
    } else if let [words] = own_words(answers).as_slice() {
        return Some(Cow::Borrowed(words));
    } else {
        own_words(answers).into_iter().map(str::to_owned).collect()
    };
    (!lines.is_empty()).then(|| Cow::Owned(lines.join("\n")))
}

/// Lists the texts in answers, each behind the name of its question.
fn list(question: Option<&str>, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            let question = question.map(|name| format!("{name} → ")).unwrap_or_default();
            lines.push(format!("{question}{}", text.trim()));
        }
        Value::Array(values) => values.iter().for_each(|value| list(question, value, lines)),
        Value::Object(members) => {
            for (key, value) in members {
                // An index names no question. Below a question, keys are a client's.
                let key = Some(key.as_str()).filter(|key| key.parse::<u32>().is_err());
                list(question.or(key), value, lines);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a line for each pair `"question"="answer"`. Clients escape no quotation marks in them.
fn pairs(text: &str) -> Vec<String> {
    let mut parts = text.split("\"=").peekable();
    let mut question = parts.next().unwrap_or_default();
    let mut lines = Vec::new();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let split = part.rsplit_once("\", \"").or_else(|| part.rsplit_once(", \""));
        let (answer, next) = split.filter(|_| !is_last).unwrap_or((part, ""));
        // The preview of the chosen option is the agent's; notes are the user's.
        let (label, preview) = answer.split_once(" selected preview:").unwrap_or((answer, ""));
        let notes = answer.rsplit_once(" notes: ").filter(|(before, _)| {
            !preview.is_empty() || before.ends_with(['"', ')']) || before.ends_with("\" user")
        });
        let label = label.split(" notes: ").next().filter(|_| notes.is_some()).unwrap_or(label);
        // Words of the client may follow the last answer.
        let whole = label.rsplit_once('"').filter(|(before, _)| is_last && !before.is_empty());
        let label = whole.map_or(label, |(label, _)| label);
        let label = label.strip_prefix('"').unwrap_or(label);
        let label = label
            .strip_suffix('"')
            .filter(|_| notes.is_some() || !preview.is_empty())
            .unwrap_or(label);
        let notes = notes.map(|(_, notes)| format!("; {notes}")).unwrap_or_default();
        lines.push(format!("{} → {label}{notes}", question.trim_matches('"')));
        question = next;
    }
    lines
}
