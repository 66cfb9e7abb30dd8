//! Other tools' ways to shrink a history; each reduces it to a number of tokens.

use crate::history::{Message, Role, tokens};

/// Placeholder for a cleared result, as in OpenCode.
const CLEARED: &str = "[Old tool result content cleared]";
/// Marker for the removed middle of a result.
const CUT: &str = "\n[...]\n";
/// Minimum characters left of a result whose middle is cut.
const LEAST: usize = 80;

/// A baseline method to shrink a history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Baseline {
    /// Keeps only the newest messages, as many as fit.
    KeepLast,
    /// Clears the oldest tool results, as many as needed.
    ClearOldest,
    /// Cuts each old result to its beginning and end, all to one length.
    CutMiddle,
}

impl Baseline {
    pub(crate) const ALL: [Self; 3] = [Self::KeepLast, Self::ClearOldest, Self::CutMiddle];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KeepLast => "keep the last messages",
            Self::ClearOldest => "clear the oldest results",
            Self::CutMiddle => "cut the middle of old results",
        }
    }

    /// Shrinks `history` to at most `budget` tokens. If the results are not enough, the oldest
    /// messages go too, so that all methods are compared at equal size.
    pub(crate) fn apply(self, history: &[Message], budget: usize) -> Vec<Message> {
        match self {
            Self::KeepLast => keep_last(history.to_vec(), budget),
            Self::ClearOldest => keep_last(clear_oldest(history, budget), budget),
            Self::CutMiddle => keep_last(cut_middle(history, budget), budget),
        }
    }
}

pub(crate) fn size(messages: &[Message]) -> usize {
    messages.iter().map(Message::tokens).sum()
}

fn keep_last(mut messages: Vec<Message>, budget: usize) -> Vec<Message> {
    let head = messages
        .iter()
        .take_while(|message| message.role == Role::Head)
        .count();
    let mut left = budget.saturating_sub(messages.iter().take(head).map(Message::tokens).sum());
    let fits = |message: &&Message| {
        let fits = message.tokens() <= left;
        left = left.saturating_sub(message.tokens());
        fits
    };
    let behind = messages.get(head..).unwrap_or_default();
    let kept = behind.iter().rev().take_while(fits).count();
    let from = messages.len() - kept;
    messages.drain(head..from);
    messages
}

/// Returns the index at which the newest batch of results begins; the agent is still using that
/// batch.
fn newest_batch(history: &[Message]) -> usize {
    let before = history
        .iter()
        .rposition(|message| message.role != Role::Tool);
    before.map_or(0, |at| at + 1)
}

fn clear_oldest(history: &[Message], budget: usize) -> Vec<Message> {
    let mut messages = history.to_vec();
    let mut size = size(&messages);
    let newest = newest_batch(&messages);
    for message in messages.iter_mut().take(newest) {
        if size <= budget {
            break;
        }
        if message.role == Role::Tool && message.text.len() > CLEARED.len() {
            size -= message.tokens() - tokens(CLEARED);
            CLEARED.clone_into(&mut message.text);
        }
    }
    messages
}

/// Searches for the longest result length at which the history fits.
fn cut_middle(history: &[Message], budget: usize) -> Vec<Message> {
    let newest = newest_batch(history);
    let others: usize = history
        .iter()
        .enumerate()
        .filter(|(at, message)| message.role != Role::Tool || *at >= newest)
        .map(|(_, message)| message.tokens())
        .sum();
    let lengths: Vec<usize> = history
        .iter()
        .take(newest)
        .filter(|message| message.role == Role::Tool)
        .map(|message| message.text.chars().count())
        .collect();
    let at_length = |most: usize| {
        let of = |&length: &usize| {
            if length > most {
                (most + CUT.len()) / 4
            } else {
                length / 4
            }
        };
        others + lengths.iter().map(of).sum::<usize>()
    };
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let (mut fits, mut too_long) = (LEAST, longest + 1);
    while too_long - fits.min(too_long) > 1 {
        let middle = usize::midpoint(fits, too_long);
        if at_length(middle) <= budget {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    let mut messages = history.to_vec();
    for message in messages.iter_mut().take(newest) {
        if message.role == Role::Tool {
            message.text = without_middle(&message.text, fits);
        }
    }
    messages
}

fn without_middle(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most / 2).collect();
    let tail: String = text.chars().skip(length - most / 2).collect();
    format!("{head}{CUT}{tail}")
}
