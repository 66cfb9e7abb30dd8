//! The literal rule, applied from scratch at every point at which the history was a request.

use super::reader::{self, Call, Message};
use super::words;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The rule's numbers, in tokens.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) protect: usize,
    pub(crate) minimum: usize,
    pub(crate) user_turns: usize,
    pub(crate) exempt_tools: Vec<String>,
    pub(crate) keep_errors: bool,
    pub(crate) described: bool,
}

/// The result of the rule.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Index and placeholder of each cleared message.
    pub(crate) cleared: BTreeMap<usize, String>,
    /// Number of results restored because a later result refers to them.
    pub(crate) restored: usize,
    /// Results that a later result refers to.
    pub(crate) pinned: BTreeSet<usize>,
}

/// A tool result.
struct Result {
    message: usize,
    /// Index of the first message of the run that holds the result.
    run: usize,
    size: usize,
    /// Tokens that clearing the result would free; 0 if it is never cleared.
    gain: usize,
    /// Whether clearing frees anything: text, or a picture beside little of it.
    leaves: bool,
    placeholder: String,
    pins: Option<usize>,
}

/// Applies the rule to a readable body.
pub(crate) fn prune(body: &str, rule: &Rule) -> Outcome {
    let tree = reader::tree(body.as_bytes()).unwrap();
    let messages = reader::reading(&tree).unwrap().messages;
    let results = results(&messages, &reader::contents(body), rule);
    let mut cleared = BTreeSet::new();
    let mut pinned = BTreeSet::new();
    let mut restored = 0;
    for end in 1..=messages.len() {
        let history = &messages[..end];
        if !is_request(history) {
            continue;
        }
        let seen = || results.iter().filter(|result| result.message < end);
        pinned = seen().filter_map(|result| result.pins).collect();
        let before = cleared.len();
        cleared.retain(|message| !pinned.contains(message));
        restored += before - cleared.len();

        let newest = seen().next_back().map(|result| result.run);
        let mut sum = 0;
        let candidates: Vec<&Result> = seen()
            .rev()
            .filter(|result| {
                sum += result.size;
                sum > rule.protect
            })
            .filter(|result| Some(result.run) != newest && result.leaves)
            .filter(|result| !pinned.contains(&result.message))
            .filter(|result| !cleared.contains(&result.message))
            .collect();
        let freed: usize = candidates.iter().map(|result| result.gain).sum();
        let users = history.iter().filter(|m| m.role == "user").count();
        if users >= rule.user_turns && freed > rule.minimum {
            cleared.extend(candidates.iter().map(|result| result.message));
        }
    }
    Outcome {
        cleared: results
            .into_iter()
            .filter(|result| cleared.contains(&result.message))
            .map(|result| (result.message, result.placeholder))
            .collect(),
        restored,
        pinned,
    }
}

/// Builds the tree that a body should become.
pub(crate) fn expected(body: &str, outcome: &Outcome) -> Value {
    let mut tree = reader::tree(body.as_bytes()).unwrap();
    let contents = reader::contents(body);
    for (&message, placeholder) in &outcome.cleared {
        let content = replacement(contents[message].unwrap(), placeholder);
        let content = reader::tree(content.as_bytes()).unwrap();
        tree["messages"][message]["content"] = content;
    }
    tree
}

/// Replaces a string by a string, and an array by one text part with the array's last cache mark.
fn replacement(content: &str, placeholder: &str) -> String {
    let text = Value::from(placeholder).to_string();
    if content.starts_with('"') {
        return text;
    }
    match reader::last_cache_mark(content) {
        Some(mark) => format!(r#"[{{"type":"text","text":{text},"cache_control":{mark}}}]"#),
        None => format!(r#"[{{"type":"text","text":{text}}}]"#),
    }
}

/// Whether an array has a picture. Quotation marks within a text are escaped.
fn shows_picture(content: &str) -> bool {
    let has = |kind: &str| content.contains(kind);
    content.starts_with('[') && (has(r#""type":"image_url""#) || has(r#""type":"image""#))
}

fn answers(message: &Message) -> bool {
    matches!(message.role.as_str(), "tool" | "function")
}

/// Returns the calls directly before the run of results around `at`, and the index at which the run
/// begins.
fn asked(messages: &[Message], at: usize) -> (&[Call], usize) {
    let run = (0..=at).rev().take_while(|&at| answers(&messages[at])).last().unwrap();
    let asking = run.checked_sub(1).map(|before| &messages[before]);
    let calls = asking
        .filter(|message| message.role == "assistant")
        .map_or(&[][..], |message| &message.calls);
    (calls, run)
}

fn matches(call: &Call, result: &Message) -> bool {
    match &call.id {
        None => result.role == "function",
        Some(id) => result.answers.as_ref() == Some(id),
    }
}

/// Whether a history that ends here was a request: it ends with a user message, or with results
/// that leave no call unanswered.
fn is_request(history: &[Message]) -> bool {
    let last = history.len() - 1;
    if !answers(&history[last]) {
        return history[last].role == "user";
    }
    let (calls, run) = asked(history, last);
    let mut open: Vec<&Call> = calls.iter().collect();
    for result in &history[run..] {
        if let Some(at) = open.iter().position(|call| matches(call, result)) {
            open.remove(at);
        }
    }
    !calls.is_empty() && open.is_empty()
}

fn results(messages: &[Message], contents: &[Option<&str>], rule: &Rule) -> Vec<Result> {
    let mut results = Vec::new();
    // Reads that a later result may refer to: tool, subject, message.
    let mut reads: Vec<(String, String, usize)> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if !answers(message) {
            continue;
        }
        let (calls, run) = asked(messages, at);
        let call = calls.iter().find(|call| matches(call, message));
        let tool = call.and_then(|call| call.name.clone());
        let about = call.and_then(|call| words::about(call.arguments.as_deref()));
        let mut pins = None;
        if let (Some(tool), Some(about)) = (&tool, &about) {
            if words::points_back(&message.text) {
                pins = reads
                    .iter()
                    .rfind(|(t, thing, _)| (t, thing) == (tool, about))
                    .map(|(_, _, at)| *at);
            } else {
                reads.push((tool.clone(), about.clone(), at));
            }
        }
        let tool = tool.or_else(|| message.name.clone());
        let size = message.chars / 4;
        let placeholder = if rule.described {
            words::described(tool.as_deref(), about.as_deref(), size)
        } else {
            words::CLEARED.to_owned()
        };
        let kept = contents[at].is_none_or(|content| {
            content == "null" || replacement(content, &placeholder).len() >= content.len()
        }) || rule.exempt_tools.contains(&tool.unwrap_or_default())
            || words::is_placeholder(&message.text)
            || pins.is_some()
            || (rule.keep_errors && words::is_failure(&message.text));
        let gain = size.saturating_sub(placeholder.chars().count() / 4);
        results.push(Result {
            message: at,
            run,
            size,
            gain: if kept { 0 } else { gain },
            leaves: !kept && (gain > 0 || contents[at].is_some_and(shows_picture)),
            placeholder,
            pins,
        });
    }
    results
}
