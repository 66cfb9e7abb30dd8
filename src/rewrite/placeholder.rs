//! The words that stand in place of a cleared tool result.

use super::arguments::Arguments;
use super::conversation::{Call, Content, Conversation, Message};
use super::index;
use super::stand_in;
use super::tokens::Tokens;
use super::wording;
use std::borrow::Cow;

/// What stands in place of a cleared result.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Placeholder {
    /// It names the tool, its main argument and how much there was.
    Described,
    /// The same words for each.
    #[default]
    Fixed,
    /// As described, and the identifiers of the result.
    Index,
}

/// What stands in place of one result: a function of that result and its call alone, so that it
/// never changes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StandIn {
    line: Cow<'static, str>,
    /// The plain estimate of that.
    line_tokens: Tokens,
    /// What the result's identifiers may take behind it.
    index: Tokens,
}

/// The identifiers of a result may take so many hundredths of it.
const INDEX_PERCENT: u32 = 10;

/// Below this, names of arguments and kinds would be most of an index.
const SMALLEST_INDEX: Tokens = Tokens::new(20);

impl Placeholder {
    /// What stands for a result of `tokens`, of a call to `tool`.
    pub(super) fn of(
        self,
        conversation: &Conversation<'_>,
        call: Option<&Call>,
        tool: &str,
        tokens: Tokens,
    ) -> StandIn {
        let (line, line_tokens) = match self {
            Self::Fixed => (Cow::Borrowed(wording::CLEARED), wording::CLEARED_TOKENS),
            Self::Described | Self::Index => {
                let line = describe(conversation, call, tool, tokens);
                let line_tokens = Tokens::of_text(&line);
                (line, line_tokens)
            }
        };
        let room = tokens.percent(INDEX_PERCENT);
        let index = match self {
            Self::Index if room >= SMALLEST_INDEX => room.min(wording::MOST_IDENTIFIERS),
            Self::Described | Self::Fixed | Self::Index => Tokens::ZERO,
        };
        StandIn {
            line,
            line_tokens,
            index,
        }
    }
}

impl StandIn {
    /// What it takes at the most.
    pub fn tokens(&self) -> Tokens {
        self.line_tokens + self.index
    }

    /// Whether it is shorter in bytes too, without the index: escapes and wide characters in what
    /// it names could make it longer than a result that it is smaller than in characters.
    pub(super) fn shortens(&self, conversation: &Conversation<'_>, message: &Message) -> bool {
        is_shorter(conversation, message, &self.line)
    }

    /// The words themselves, in place of the result in `message`.
    pub fn words(&self, conversation: &Conversation<'_>, message: &Message) -> Cow<'static, str> {
        if self.index == Tokens::ZERO {
            return self.line.clone();
        }
        let index = index::index_of_text(&conversation.text(message), self.index);
        let words = wording::with_identifiers(&self.line, &index);
        if index.is_empty() || !is_shorter(conversation, message, &words) {
            return self.line.clone();
        }
        words.into()
    }
}

/// Whether what stands in `message` is a placeholder already, ours or one in the same words.
pub(super) fn is_one(conversation: &Conversation<'_>, message: &Message) -> bool {
    let first = match message.content {
        Content::Absent | Content::Null => None,
        Content::Parts(_) => {
            let mut texts = conversation.parts(message).iter().filter_map(|it| it.text);
            texts.find(|text| text.chars() > 0)
        }
        Content::Text(text) => Some(text),
    };
    let may_be = first.is_some_and(|text| {
        let raw = text.raw(conversation.body());
        BEGINNINGS.iter().any(|start| raw.starts_with(start))
    });
    may_be && wording::is_placeholder(&conversation.text(message))
}

/// How our words begin, escaped or not: a text that begins otherwise need not be decoded.
const BEGINNINGS: [&str; 3] = ["[O", "[\\", "\\u005"];

fn is_shorter(conversation: &Conversation<'_>, message: &Message, words: &str) -> bool {
    let content = message.content.span();
    if let Content::Text(text) = message.content {
        let there = text.span().len();
        // An escape takes six bytes at the most: a string of that length need not be compared.
        if there > 6 * words.len() + 2 {
            return true;
        }
        if stand_in::is_plain(words) {
            return there > words.len() + 2;
        }
    }
    let stands = stand_in::in_shape_of(conversation, message, words);
    content
        .zip(stands)
        .is_some_and(|(content, stands)| stands.len() < content.len())
}

/// A placeholder that says what was there; the plain one where no tool is named.
fn describe(
    conversation: &Conversation<'_>,
    call: Option<&Call>,
    tool: &str,
    tokens: Tokens,
) -> Cow<'static, str> {
    if tool.is_empty() {
        return Cow::Borrowed(wording::CLEARED);
    }
    let line = |text: &str, chars: usize| -> String {
        text.chars()
            .take(chars)
            .map(|c| if c == '\n' { ' ' } else { c })
            .collect()
    };
    let arguments = call.map(|call| Arguments::of(conversation, call));
    let main = arguments.as_ref().and_then(Arguments::main);
    let main = main.map(|text| line(text, wording::ARGUMENT_CHARS));
    let tool = line(tool, wording::TOOL_CHARS);
    Cow::Owned(wording::cleared_result_of(&tool, main.as_deref(), tokens))
}

#[cfg(test)]
mod tests;
