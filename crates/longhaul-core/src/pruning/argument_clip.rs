//! Clips of overlong contents in the arguments of a call: of a file, an edit, a patch or a script.
//!
//! A clip keeps the beginning and the end of a string. The arguments stay valid JSON, and depend on the
//! call alone, so that a clip never changes.

use crate::collections::StaticSet;
use crate::conversation::{Conversation, Message, ToolCall};
use crate::json::quote::quote;
use crate::json::scanner::{Literal, NotJson, Scanner};
use crate::text::wording;
use crate::units::tokens::Tokens;
use std::sync::LazyLock;

/// Members whose strings are contents. Others, such as paths and prompts, stay whole.
static CONTENT_KEYS: LazyLock<StaticSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("content_keys.txt").lines();
    lines.filter(|line| !line.starts_with('#')).collect()
});

/// Maximum characters of a string that stays whole. In the recorded sessions, the longer contents are one
/// in forty, and a third of all arguments.
const MAX_CHARS: u32 = 2_000;
/// Characters that a clip keeps at the beginning and at the end.
const HEAD_CHARS: usize = 800;
const TAIL_CHARS: usize = 400;
/// Maximum depth of arguments that are clipped. Lists of edits have a depth of three.
const MAX_DEPTH: u8 = 8;

/// Returns the JSON of the arguments of `call` with overlong contents clipped. Returns `None` if there are
/// none.
pub(crate) fn clipped_json(conversation: &Conversation<'_>, call: &ToolCall) -> Option<String> {
    let text = clipped_text(conversation, call)?;
    let is_string = call.arguments?.is_string();
    Some(if is_string { quote(&text) } else { text })
}

/// Returns the tokens that [`clipped_json`] saves in call `number` of `message`.
pub(crate) fn saved_tokens(
    conversation: &Conversation<'_>,
    message: &Message,
    number: usize,
) -> Tokens {
    let calls = conversation.calls(message);
    let Some(call) = calls.get(number).filter(|call| may_be_clipped(call)) else {
        return Tokens::ZERO;
    };
    let measure = |call| saved_chars(conversation, call);
    let saved = message.memo().map_or_else(
        || measure(call),
        |memo| {
            let all = || calls.iter().map(measure).collect();
            let all = memo.clipped_chars.get_or_init(all);
            all.get(number).copied().unwrap_or_default()
        },
    );
    Tokens::estimate_chars(saved)
}

fn saved_chars(conversation: &Conversation<'_>, call: &ToolCall) -> u32 {
    let before = call.arguments.map_or(0, Literal::chars);
    clipped_text(conversation, call).map_or(0, |text| {
        let after = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        before.saturating_sub(after)
    })
}

fn may_be_clipped(call: &ToolCall) -> bool {
    call.arguments.is_some_and(|it| it.chars() > MAX_CHARS)
}

/// Returns the text of the arguments with overlong contents clipped.
fn clipped_text(conversation: &Conversation<'_>, call: &ToolCall) -> Option<String> {
    let arguments = call.arguments.filter(|_| may_be_clipped(call))?;
    let text = arguments.decode(conversation.body());
    let mut found = Vec::new();
    let mut scanner = Scanner::new(&text);
    let read = find_contents(&mut scanner, false, 0, &mut found).and_then(|()| scanner.finish());
    if read.is_err() {
        // A tool that takes text has no JSON. What begins like JSON was cut off.
        let is_text = !text.trim_start().starts_with(['{', '[']);
        return is_text.then(|| clip(&text));
    }
    let (mut clipped, mut copied) = (String::new(), 0);
    for literal in &found {
        let span = literal.span();
        clipped.push_str(text.get(copied..span.start())?);
        clipped.push_str(&quote(&clip(&literal.decode(&text))));
        copied = span.end();
    }
    clipped.push_str(text.get(copied..)?);
    (!found.is_empty()).then_some(clipped)
}

fn clip(text: &str) -> String {
    wording::clip_chars(text, HEAD_CHARS, TAIL_CHARS).into_owned()
}

/// Reads a value, and adds its overlong strings to `found`. Strings of a list are contents if the list is.
fn find_contents(
    scanner: &mut Scanner<'_>,
    is_content: bool,
    depth: u8,
    found: &mut Vec<Literal>,
) -> Result<(), NotJson> {
    match scanner.peek() {
        Some(b'"') => {
            let text = scanner.string()?;
            found.extend((is_content && text.chars() > MAX_CHARS).then_some(text));
            Ok(())
        }
        Some(b'{') if depth < MAX_DEPTH => {
            let object = scanner.object(|scanner, key| {
                let is_content = CONTENT_KEYS.contains(&*key.decode(scanner.text()));
                find_contents(scanner, is_content, depth + 1, found)
            });
            object.map(drop)
        }
        Some(b'[') if depth < MAX_DEPTH => {
            let array =
                scanner.array(|scanner| find_contents(scanner, is_content, depth + 1, found));
            array.map(drop)
        }
        _ => scanner.skip(),
    }
}

#[cfg(test)]
mod tests;
