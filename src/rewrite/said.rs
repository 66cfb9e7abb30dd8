//! What the user and the system said, in their own words.

use super::conversation::{Conversation, Message, PartKind};
use super::tokens::Tokens;
use super::wording;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// The heading of what the user said.
pub(super) const HEADING: &str = "## What the User Said";
/// The heading of what system and developer messages said.
pub(super) const INSTRUCTIONS: &str = "## Instructions from the System";

/// A message is clipped to no less than this, in characters; with less room it is left out.
const LEAST: usize = 120;
/// What stands around each message, and around a clipping.
const AROUND: usize = 80;

/// The text of the user messages of `covered` that are not ours: the newest as they are, older ones
/// clipped at both ends and then left out with a count, all within `budget`. Empty if there is none.
pub fn said(conversation: &Conversation<'_>, covered: Range<usize>, budget: Tokens) -> String {
    let messages = conversation.messages().get(covered).unwrap_or_default();
    let texts: Vec<String> = messages
        .iter()
        .filter(|message| message.role.is_user())
        .map(|message| text_with_markers(conversation, message).into_owned())
        .filter(|text| !text.trim().is_empty() && !wording::is_ours(text))
        .collect();
    tell(HEADING, ["User", "user"], &texts, budget)
}

/// The same of the system and developer messages of `covered`: each text once, where it came last,
/// since agents repeat their reminders.
pub fn instructed(
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budget: Tokens,
) -> String {
    let messages = conversation.messages().get(covered).unwrap_or_default();
    let mut met = HashSet::new();
    let mut texts: Vec<String> = messages
        .iter()
        .rev()
        .filter(|message| message.role.instructs())
        .map(|message| text_with_markers(conversation, message))
        .filter(|text| !text.trim().is_empty() && met.insert(text.trim().to_owned()))
        .map(Cow::into_owned)
        .collect();
    texts.reverse();
    tell(INSTRUCTIONS, ["System", "system"], &texts, budget)
}

/// `texts` under a heading, each behind the first of the `speaker`'s names.
fn tell(heading: &str, speaker: [&str; 2], texts: &[String], budget: Tokens) -> String {
    let [label, name] = speaker;
    let mut left = budget.as_chars().saturating_sub(heading.len() + AROUND);
    let cost = |text: &str| text.chars().count() + "\n\n[]: ".len() + label.len();
    let everything: usize = texts.iter().map(|text| cost(text)).sum();
    let mut newest_first: Vec<Cow<'_, str>> = Vec::new();
    for text in texts.iter().rev() {
        let whole = cost(text);
        // One long message must not push all older ones out: it has half of what is left.
        let share = if everything <= budget.as_chars() {
            left
        } else {
            (left / 2).max(LEAST + AROUND)
        };
        let kept = if whole <= share.min(left) {
            Cow::Borrowed(text.as_str())
        } else if left >= LEAST + AROUND {
            let room = share.min(left).saturating_sub(AROUND);
            wording::clip_chars(text, room * 2 / 3, room / 3)
        } else {
            break;
        };
        let cost = cost(&kept);
        if cost > left {
            break;
        }
        left -= cost;
        newest_first.push(kept);
    }
    if newest_first.is_empty() {
        return String::new();
    }
    let mut out = String::from(heading);
    let left_out = texts.len() - newest_first.len();
    if left_out > 0 {
        let left_out = left_out.to_string();
        out.extend(["\n\n[", &left_out, " earlier ", name, " messages left out]"]);
    }
    for text in newest_first.iter().rev() {
        out.extend(["\n\n[", label, "]: ", text]);
    }
    out
}

/// A message's text, with a marker for each picture, document and recording.
pub(super) fn text_with_markers<'a>(
    conversation: &Conversation<'a>,
    message: &Message,
) -> Cow<'a, str> {
    let mut text = conversation.text(message);
    let parts = conversation.parts(message).iter();
    for marker in parts.filter_map(|part| marker(part.kind)) {
        let text = text.to_mut();
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(marker);
    }
    text
}

/// What tells of a part of this kind where it cannot be shown.
fn marker(kind: PartKind) -> Option<&'static str> {
    match kind {
        PartKind::Audio => Some(wording::AUDIO),
        PartKind::File => Some(wording::FILE),
        PartKind::Image => Some(wording::IMAGE),
        PartKind::Video => Some(wording::VIDEO),
        PartKind::Other | PartKind::Text => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::chat_completions::read;

    /// What is made of `texts` within a budget: four times as many characters, 21 of which go to the
    /// heading and 80 to a note of what was left out.
    fn check(texts: &[&str], budget: u32, expect: &[&str], refuse: &[&str]) {
        let messages: Vec<String> = texts
            .iter()
            .map(|text| {
                format!(
                    r#"{{"role":"user","content":{}}}"#,
                    serde_json::to_string(text).unwrap()
                )
            })
            .collect();
        let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        let conversation = read(body.as_bytes()).unwrap();
        let said = said(&conversation, 0..texts.len(), Tokens::new(budget));
        assert!(Tokens::of_text(&said) <= Tokens::new(budget), "{said}");
        for part in expect {
            assert!(said.contains(part), "{part} not in {said}");
        }
        for part in refuse {
            assert!(!said.contains(part), "{part} in {said}");
        }
    }

    #[test]
    fn what_fits_is_verbatim_and_in_order() {
        check(
            &["first\nline", "second"],
            100,
            &["[User]: first\nline\n\n[User]: second"],
            &["left out"],
        );
    }

    #[test]
    fn the_newest_is_kept_before_older_ones() {
        let long = "x".repeat(4_000);
        check(
            &["the very first", &long, &long, &long, "the newest"],
            100,
            &[
                "the newest",
                "characters left out",
                "earlier user messages left out",
            ],
            &["the very first", &long],
        );
    }

    #[test]
    fn a_long_message_leaves_room_for_older_ones() {
        let long = "x".repeat(40_000);
        check(
            &["the very first", &long],
            400,
            &["the very first", "characters left out"],
            &[],
        );
    }

    /// How a text of so many `x` ends up where so many are left of it at its start and its end.
    fn clipped(chars: usize, head: usize, tail: usize) -> String {
        let (start, end) = ("x".repeat(head), "x".repeat(tail));
        let left_out = chars - head - tail;
        format!("[User]: {start}\n[… {left_out} characters left out …]\n{end}")
    }

    #[test]
    fn what_all_fits_has_no_shares() {
        let (long, short) = ("x".repeat(220), "y".repeat(59));
        // With what stands before each, the 299 characters that there are.
        let both = format!("\n\n[User]: {short}\n\n[User]: {long}");
        check(&[&short, &long], 100, &[&both], &["left out"]);
    }

    #[test]
    fn the_last_character_that_there_is_room_for_is_kept() {
        let text = "x".repeat(289);
        check(&[&text], 100, &[&text], &["left out"]);
        let longer = "x".repeat(290);
        check(&[&longer], 100, &[&clipped(290, 146, 73)], &[&longer]);
    }

    #[test]
    fn a_long_message_has_half_of_what_is_left_two_thirds_of_it_for_its_start() {
        let long = "x".repeat(40_000);
        // Half of 1,499 is 749; 80 of those go to what stands around a clipping.
        let expect = clipped(40_000, 446, 223);
        check(&["the very first", &long], 400, &[&expect], &[]);
    }

    #[test]
    fn a_message_is_clipped_to_no_less_than_is_worth_reading() {
        let long = "x".repeat(4_000);
        let least = clipped(4_000, 80, 40);
        // Half of what is left would be less.
        check(&[&long], 100, &[&least], &[]);
        // Exactly as much is left as that takes, and one character less.
        let newest = |chars| "y".repeat(chars);
        check(&[&long, &newest(89)], 100, &[&least], &["earlier"]);
        check(
            &[&long, &newest(90)],
            100,
            &["[1 earlier user messages left out]", &newest(90)],
            &["xx"],
        );
    }

    #[test]
    fn with_no_room_for_any_there_is_not_even_a_heading() {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#,
            "x".repeat(4_000)
        );
        let conversation = read(body.as_bytes()).unwrap();
        assert_eq!(said(&conversation, 0..1, Tokens::new(75)), "");
        assert_ne!(said(&conversation, 0..1, Tokens::new(76)), "");
    }

    #[test]
    fn our_own_summary_and_silence_are_not_what_the_user_said() {
        check(
            &[&wording::wrap("old prose"), " \n", "hello"],
            1_000,
            &["## What the User Said\n\n[User]: hello"],
            &["old prose"],
        );
    }

    #[test]
    fn what_the_system_said_is_told_once_where_it_came_last() {
        let message =
            |(role, text): (&str, &str)| serde_json::json!({"role": role, "content": text});
        let reminder = ("system", "mind the budget");
        let all = [
            reminder,
            ("developer", "never run a delete"),
            ("user", "go on"),
            ("system", " "),
            reminder,
        ];
        let body = serde_json::json!({"messages": all.map(message)}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let told = |covered, budget| instructed(&conversation, covered, Tokens::new(budget));
        let both = "[System]: never run a delete\n\n[System]: mind the budget";
        assert_eq!(told(0..5, 100), format!("{INSTRUCTIONS}\n\n{both}"));
        let one = "[1 earlier system messages left out]\n\n[System]: mind the budget";
        assert_eq!(told(0..5, 36), format!("{INSTRUCTIONS}\n\n{one}"));
        assert_eq!(told(2..4, 100), "");
    }

    #[test]
    fn each_part_that_is_no_text_becomes_a_marker() {
        let shows = |parts: &[&str], expect: &str| {
            let parts = parts.join(",");
            let body = format!(r#"{{"messages":[{{"role":"user","content":[{parts}]}}]}}"#);
            let conversation = read(body.as_bytes()).unwrap();
            let said = said(&conversation, 0..1, Tokens::new(100));
            assert_eq!(said, format!("{HEADING}\n\n[User]: {expect}"));
        };
        let text = r#"{"type":"text","text":"look"}"#;
        let image = r#"{"type":"image_url","image_url":{"url":"data:x"}}"#;
        shows(&[text], "look");
        shows(&[text, image], "look [image]");
        shows(&[image, text, image], "look [image] [image]");
        shows(&[image], "[image]");
        let file = r#"{"type":"file","file":{"file_id":"x"}}"#;
        let audio = r#"{"type":"input_audio","input_audio":{"data":"x"}}"#;
        let video = r#"{"type":"video_url","video_url":{"url":"x"}}"#;
        shows(&[file, text, audio, video], "look [file] [audio] [video]");
        shows(&[text, r#"{"type":"other"}"#], "look");
    }
}
