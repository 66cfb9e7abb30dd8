//! Hash of a conversation's head: its leading system and developer messages, without dates, times, and the
//! block of Claude Code that bills a request.
//!
//! Many clients write the current date or time in the system prompt. A hash of the exact text would
//! change with the clock.

use crate::conversation::{Content, Conversation, PartKind};
use crate::units::scope::{Scope, hash_field, length_bytes};
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// The hash of a head. It is keyed with the scope, so a guess of the text cannot be confirmed
/// without the secret.
pub(super) type HeadHash = [u8; 32];

/// Text that replaces a date or time. No system prompt contains this character.
const MOMENT: &str = "\0";

/// Dates and times of day, as `moments.txt` lists them.
static MOMENTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let (mut names, mut forms) = (Vec::new(), Vec::new());
    for line in include_str!("moments.txt").lines().filter(|line| !line.starts_with('#')) {
        match line.split_once('\t') {
            Some(named) => names.push(named),
            None => forms.push(
                names.iter().fold(line.to_owned(), |line, (name, what)| line.replace(name, what)),
            ),
        }
    }
    // If the pattern fails to compile, nothing matches; a test ensures that it compiles.
    Regex::new(&format!("(?i-u:{})", forms.join("|"))).ok()
});

/// Beginning of the block by which Claude Code bills a request.
const BILL: &str = "x-anthropic-billing-header:";

/// Hashes the head of `conversation` for the caller with this `scope`.
pub(super) fn head_hash(conversation: &Conversation<'_>, scope: Scope) -> HeadHash {
    let mut hasher = blake3::Hasher::new_keyed(scope.bytes());
    if let Some(instructions) = conversation.params().instructions {
        let text = instructions.decode(conversation.body());
        // In the Messages API, the text of several blocks is their JSON. A quote within a block is escaped.
        let text = if text.starts_with('[') && text.contains(BILL) {
            let kept = |piece| if is_bill(piece) { "" } else { piece };
            let pieces: Vec<&str> = text.split('"').map(kept).collect();
            pieces.join("\"").into()
        } else {
            text
        };
        hash_field(&mut hasher, b's', &without_moments(&text));
    }
    let head = conversation.messages().iter().take(conversation.head_len());
    for message in head {
        let body = conversation.body();
        let parts = conversation.parts(message).iter();
        let blocks = parts.filter(|part| part.kind == PartKind::Text);
        let blocks = blocks.filter_map(|part| Some(part.text?.decode(body)));
        let (bills, others): (Vec<_>, Vec<_>) = blocks.partition(|block| is_bill(block));
        let text =
            if bills.is_empty() { conversation.text(message) } else { others.concat().into() };
        hash_field(&mut hasher, b't', &without_moments(&text));
        if let Some(name) = message.name {
            hash_field(&mut hasher, b'n', name.raw(body));
        }
        let Content::Parts(_) = message.content else {
            continue;
        };
        let parts = conversation.parts(message).iter();
        for part in parts.filter(|part| part.kind != PartKind::Text) {
            hash_field(&mut hasher, b'p', part.span.slice(body));
        }
    }
    hasher.update(&length_bytes(conversation.head_len()));
    hasher.finalize().into()
}

/// Whether a block of text is the one by which Claude Code bills a request, and nothing else.
///
/// Such a block has a name and pairs, of which `cch=` may change with each request.
fn is_bill(block: &str) -> bool {
    let Some(pairs) = block.strip_prefix(BILL) else {
        return false;
    };
    let is_pair = |pair: &str| {
        let (name, value) = pair.trim().split_once('=').unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+/".contains(&byte);
        !name.is_empty() && name.bytes().chain(value.bytes()).all(is_plain)
    };
    let pairs = pairs.trim().trim_end_matches(';');
    pairs.split(';').all(is_pair)
}

/// Returns `text` without dates and times.
fn without_moments(text: &str) -> Cow<'_, str> {
    match &*MOMENTS {
        Some(pattern) => pattern.replace_all(text, MOMENT),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use serde_json::{Value, json};

    fn hash_of(head: &[Value]) -> HeadHash {
        let user = json!({"role": "user", "content": "go on"});
        let messages: Vec<&Value> = head.iter().chain([&user]).collect();
        let body = json!({"messages": messages}).to_string();
        head_hash(&read(body.as_bytes()).unwrap(), Scope::new(&[0; 32], &[]))
    }

    fn of_text(text: &str) -> HeadHash {
        hash_of(&[json!({"role": "system", "content": text})])
    }

    #[test]
    fn the_clock_does_not_change_the_hash() {
        for [before, after] in [
            ["Today's date: 2026-11-25", "Today's date: 2026-12-01"],
            ["now: 2026-11-25T23:59:33.123Z.", "now: 2026-11-26T00:00:01.007Z."],
            ["now: 2026-11-25 10:18:33+01:00", "now: 2026-11-25 10:19:00+01:00"],
            ["Wed Nov 25 2026 10:18:33 GMT+0100", "Sun Mar 1 2027 09:00:00 GMT+0100"],
            ["Wednesday, November 25th, 2026", "Tuesday, December 1st, 2026"],
            ["on 25. November 2026", "on 1. December 2026"],
            ["on 25.11.2026 at 10:18", "on 1.12.2026 at 9:05"],
            ["11/25/2026, 10:18:33 PM", "11/26/2026, 1:05:00 AM"],
            ["on 11/25/26", "on 12/1/26"],
            ["November 2026", "December 2026"],
            ["Heute ist\n2026/11/25.", "Heute ist\n2026/11/26."],
        ] {
            assert_eq!(of_text(before), of_text(after), "{before} {after}");
        }
    }

    #[test]
    fn a_block_that_bills_the_request_is_left_out_and_no_other_block() {
        let head = |blocks: &[&str]| {
            let block = |text: &&str| json!({"type": "text", "text": text});
            let blocks: Vec<Value> = blocks.iter().map(block).collect();
            hash_of(&[json!({"role": "system", "content": blocks})])
        };
        let bill = "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=";
        let [one, two] = ["3f1a0;", "00000;"].map(|request| format!("{bill}{request}"));
        assert_eq!(head(&[&one, "You code."]), head(&[&two, "You code."]));
        assert_eq!(head(&[&one, "You code."]), head(&["You code."]));
        assert_eq!(head(&["You ", "code.", &one]), head(&["You ", "code."]));
        for (one, other) in [
            (format!("{one} You serve ALICE."), format!("{one} You serve BOB.")),
            (format!("{one}\nALICE=1; BOB"), format!("{one}\nBOB=1; ALICE")),
            (format!("You: {one}"), format!("You: {two}")),
            ("x-other-header: cch=1;".to_owned(), "x-other-header: cch=2;".to_owned()),
        ] {
            assert_ne!(head(&[&one]), head(&[&other]), "{one} {other}");
        }
        assert_ne!(head(&[&one, "ALICE"]), head(&[&one, "BOB"]));
        // In the Messages API, the blocks stand outside the messages.
        let apart = |blocks: Value| {
            let body = json!({"system": blocks, "max_tokens": 1, "messages": [
                {"role": "user", "content": "go on"}]});
            let body = body.to_string();
            let read = crate::dialect::messages::read(body.as_bytes()).unwrap();
            head_hash(&read, Scope::new(&[0; 32], &[]))
        };
        let blocks = |bill: &str, text: &str| {
            apart(json!([{"type": "text", "text": bill}, {"type": "text", "text": text}]))
        };
        assert_eq!(blocks(&one, "You code."), blocks(&two, "You code."));
        assert_ne!(blocks(&one, "ALICE"), blocks(&one, "BOB"));
        assert_ne!(blocks("a", &format!("\"{one}\"")), blocks("a", &format!("\"{two}\"")));
        assert_ne!(apart(json!(one)), apart(json!(two)));
    }

    #[test]
    fn every_other_text_changes_the_hash() {
        for [one, other] in [
            ["You serve ALICE.", "You serve BOB."],
            ["account 4711", "account 4712"],
            ["account 12345678", "account 12345679"],
            ["order 2026-1125", "order 2026-1126"],
            ["host 10.0.0.1", "host 10.0.0.2"],
            ["port 8080", "port 8081"],
            ["version 1.2.3", "version 1.2.4"],
            ["key ab:10:18x", "key ab:10:19x"],
            ["March on", "May on"],
            ["date 2026-11-25, BOB", "date 2026-11-25, ALICE"],
            ["", "x"],
        ] {
            assert_ne!(of_text(one), of_text(other), "{one} {other}");
        }
    }

    #[test]
    fn text_splitting_does_not_change_the_hash_but_other_content_does() {
        let parts = |texts: &[&str]| {
            let parts: Vec<Value> = texts
                .iter()
                .map(|text| json!({"type": "text", "text": text, "cache_control": {"x": 1}}))
                .collect();
            json!({"role": "developer", "content": parts})
        };
        assert_eq!(hash_of(&[parts(&["a", "b"])]), of_text("ab"));
        let text = |text: &str| json!({"role": "system", "content": text});
        assert_ne!(hash_of(&[text("a"), text("b")]), of_text("ab"));
        assert_ne!(hash_of(&[text("a"), text("")]), of_text("a"));
        assert_ne!(hash_of(&[]), of_text(""));
        let image = |url: &str| {
            json!({"role": "system", "content": [
                {"type": "image_url", "image_url": {"url": url}}]})
        };
        assert_ne!(hash_of(&[image("https://x/1")]), hash_of(&[image("https://x/2")]));
        let named = json!({"role": "system", "content": "a", "name": "bob"});
        assert_ne!(hash_of(&[named]), of_text("a"));
    }
}
