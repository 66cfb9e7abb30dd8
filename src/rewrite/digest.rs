//! What stands for history where no model is asked: a pure function of the history.

use super::arguments::Arguments;
use super::conversation::{Call, Conversation, Message, Role};
use super::index::index;
use super::ledger::Ledger;
use super::policy::Budgets;
use super::said::{said, text_with_images};
use super::tokens::Tokens;
use super::wording;
use std::ops::Range;

/// A step's text and the main argument of each of its calls are clipped to so many characters.
const TEXT_CHARS: usize = 200;
const ARGUMENT_CHARS: usize = 80;
/// So much of an older step: what was done, without how.
const OLD_TEXT_CHARS: usize = 70;
const OLD_ARGUMENT_CHARS: usize = 40;
/// A step that makes more calls than this shows the rest as a number.
const CALLS: usize = 4;
/// The share of the steps' room, in hundredths, that the newest steps may fill in full.
const FULL_PERCENT: usize = 60;
/// What the first request may take of the goal's line.
const GOAL_CHARS: usize = 160;
/// Sections are parted by an empty line, which each pays for from its own budget.
const GAP: Tokens = Tokens::new(1);

/// What stands for the messages `covered`: the goal and the steps, what the user said, the files and
/// the identifiers. Its estimate never exceeds [`Budgets::nominal`].
pub fn digest(conversation: &Conversation<'_>, covered: Range<usize>, budgets: &Budgets) -> String {
    let prose = steps(conversation, covered.clone(), budgets.prose - GAP);
    with_our_parts(prose, conversation, covered, budgets)
}

/// `prose`, and below it what is ours in every record: what the user said, the ledger, the index.
pub(super) fn with_our_parts(
    prose: String,
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budgets: &Budgets,
) -> String {
    let mut text = prose;
    let add = |text: &mut String, part: String| {
        if !text.is_empty() && !part.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&part);
    };
    add(
        &mut text,
        said(conversation, covered.clone(), budgets.said - GAP),
    );
    let ledger = Ledger::of(conversation, covered.clone()).render(budgets.ledger - GAP);
    add(&mut text, ledger);
    let index = index(conversation, covered, &text, budgets.index - GAP);
    add(&mut text, index);
    text
}

/// The goal, and each step of the model as a line.
fn steps(conversation: &Conversation<'_>, covered: Range<usize>, budget: Tokens) -> String {
    const HEADINGS: &str = "## Progress\n### Steps\n- [4294967295 older steps left out]\n";
    let messages = conversation
        .messages()
        .get(covered.clone())
        .unwrap_or_default();
    let goal = goal(conversation, &covered, messages);
    let room = budget
        .as_chars()
        .saturating_sub(goal.chars().count() + HEADINGS.len());
    let does = |message: &&Message| message.role == Role::Assistant;
    let all: Vec<&Message> = messages.iter().filter(does).collect();
    let (lines, left_out) = thin(conversation, &all, room);
    if lines.is_empty() {
        let fits = goal.chars().count() <= budget.as_chars();
        return if fits {
            goal.trim_end().to_owned()
        } else {
            String::new()
        };
    }
    let mut text = format!("{goal}## Progress\n### Steps");
    if left_out > 0 {
        text.extend(["\n- [", &left_out.to_string(), " older steps left out]"]);
    }
    for line in lines.iter().rev() {
        text.push('\n');
        text.push_str(line);
    }
    text
}

/// The first request, if it is among what is covered; otherwise it still stands before it.
fn goal(conversation: &Conversation<'_>, covered: &Range<usize>, messages: &[Message]) -> String {
    let before = conversation
        .messages()
        .get(..covered.start)
        .unwrap_or_default();
    if before.iter().any(|message| message.role.is_user()) {
        return String::new();
    }
    let mut requests = messages.iter().filter(|message| message.role.is_user());
    let first = requests.find_map(|message| {
        let text = text_with_images(conversation, message);
        (!text.trim().is_empty() && !wording::is_ours(&text))
            .then(|| wording::one_line(&text, GOAL_CHARS))
    });
    first
        .map(|first| format!("## Goal\n{first}\n\n"))
        .unwrap_or_default()
}

/// The newest steps in full up to their share, older ones in short, then evenly fewer of them.
/// Newest first, with the number of those that are left out.
fn thin(conversation: &Conversation<'_>, all: &[&Message], room: usize) -> (Vec<String>, usize) {
    let cost = |line: &str| line.chars().count() + 1;
    let mut lines = Vec::new();
    let mut left = room;
    let mut told = 0;
    for message in all.iter().rev() {
        let line = line(conversation, message, TEXT_CHARS, ARGUMENT_CHARS);
        if !line.is_empty() {
            if cost(&line) > left.saturating_sub(room * (100 - FULL_PERCENT) / 100) {
                break;
            }
            left -= cost(&line);
            lines.push(line);
        }
        told += 1;
    }
    let older: Vec<String> = all
        .iter()
        .rev()
        .skip(told)
        .map(|message| line(conversation, message, OLD_TEXT_CHARS, OLD_ARGUMENT_CHARS))
        .filter(|line| !line.is_empty())
        .collect();
    let total: usize = older.iter().map(|line| cost(line)).sum();
    // Every `stride`-th fits, as far as the average tells; the bound is held below all the same.
    let stride = total.div_ceil(left.max(1)).max(1);
    let before = lines.len();
    for line in older.iter().step_by(stride) {
        if cost(line) <= left {
            left -= cost(line);
            lines.push(line.clone());
        }
    }
    let shown = lines.len() - before;
    (lines, older.len() - shown)
}

/// One step: its text, then its calls by name and main argument.
fn line(
    conversation: &Conversation<'_>,
    message: &Message,
    text_chars: usize,
    argument_chars: usize,
) -> String {
    let text = wording::one_line(&conversation.text(message), text_chars);
    let calls = conversation.calls(message);
    let mut shown: Vec<String> = calls
        .iter()
        .take(CALLS)
        .map(|call| call_line(conversation, call, argument_chars))
        .collect();
    if calls.len() > CALLS {
        shown.push(format!("{} more", calls.len() - CALLS));
    }
    match (text.is_empty(), shown.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!("- {text}"),
        (true, false) => format!("- {}", shown.join(", ")),
        (false, false) => format!("- {text} → {}", shown.join(", ")),
    }
}

fn call_line(conversation: &Conversation<'_>, call: &Call, argument_chars: usize) -> String {
    let name = call
        .name
        .map(|name| name.decode(conversation.body()))
        .unwrap_or_default();
    let name = wording::one_line(&name, ARGUMENT_CHARS);
    let arguments = Arguments::of(conversation, call);
    let main = arguments
        .main()
        .map(|main| wording::one_line(main, argument_chars));
    format!("{name}({})", main.unwrap_or_default())
}
