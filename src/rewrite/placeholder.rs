//! The words that stand in place of a cleared tool result.

use super::arguments::ToolArguments;
use super::conversation::{Content, Conversation, Message, ToolCall};
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
pub struct PlaceholderText {
    line: Cow<'static, str>,
    /// The plain estimate of that.
    line_tokens: Tokens,
    /// What the result's identifiers may take behind it.
    index_budget: Tokens,
}

/// The identifiers of a result may take so many hundredths of it.
const INDEX_PERCENT: u32 = 10;

/// Below this, names of arguments and kinds would be most of an index.
const MIN_INDEX: Tokens = Tokens::new(20);

impl Placeholder {
    /// What stands for a result of `tokens`, of a call to `tool`.
    pub(super) fn text_for(
        self,
        conversation: &Conversation<'_>,
        call: Option<&ToolCall>,
        tool: &str,
        tokens: Tokens,
    ) -> PlaceholderText {
        let (line, line_tokens) = match self {
            Self::Fixed => (Cow::Borrowed(wording::CLEARED), wording::CLEARED_TOKENS),
            Self::Described | Self::Index => {
                let line = describe(conversation, call, tool, tokens);
                let line_tokens = Tokens::estimate_text(&line);
                (line, line_tokens)
            }
        };
        let room = tokens.percent(INDEX_PERCENT);
        let index = match self {
            Self::Index if room >= MIN_INDEX => room.min(wording::MAX_IDENTIFIER_TOKENS),
            Self::Described | Self::Fixed | Self::Index => Tokens::ZERO,
        };
        PlaceholderText {
            line,
            line_tokens,
            index_budget: index,
        }
    }
}

impl PlaceholderText {
    /// What it takes at the most.
    pub fn max_tokens(&self) -> Tokens {
        self.line_tokens + self.index_budget
    }

    /// Whether it is shorter in bytes too, without the index: escapes and wide characters in what
    /// it names could make it longer than a result that it is smaller than in characters.
    pub(super) fn shortens(&self, conversation: &Conversation<'_>, message: &Message) -> bool {
        is_shorter(conversation, message, &self.line)
    }

    /// The words themselves, in place of the result in `message`.
    pub fn render(&self, conversation: &Conversation<'_>, message: &Message) -> Cow<'static, str> {
        if self.index_budget == Tokens::ZERO {
            return self.line.clone();
        }
        let index = index::index_text(&conversation.text(message), self.index_budget);
        let words = wording::with_identifiers(&self.line, &index);
        if index.is_empty() || !is_shorter(conversation, message, &words) {
            return self.line.clone();
        }
        words.into()
    }
}

/// Whether what stands in `message` is a placeholder already, ours or one in the same words.
pub(super) fn is_placeholder(conversation: &Conversation<'_>, message: &Message) -> bool {
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
        RAW_PREFIXES.iter().any(|start| raw.starts_with(start))
    });
    may_be && wording::is_placeholder(&conversation.text(message))
}

/// How our words begin, escaped or not: a text that begins otherwise need not be decoded.
const RAW_PREFIXES: [&str; 3] = ["[O", "[\\", "\\u005"];

fn is_shorter(conversation: &Conversation<'_>, message: &Message, words: &str) -> bool {
    let content = message.content.span();
    if let Content::Text(text) = message.content {
        let there = text.span().len();
        // An escape takes six bytes at the most: a string of that length need not be compared.
        if there > 6 * words.len() + 2 {
            return true;
        }
        if stand_in::needs_no_escape(words) {
            return there > words.len() + 2;
        }
    }
    let stands = stand_in::content_in_shape(conversation, message, words);
    content
        .zip(stands)
        .is_some_and(|(content, stands)| stands.len() < content.len())
}

/// A placeholder that says what was there; the plain one where no tool is named.
fn describe(
    conversation: &Conversation<'_>,
    call: Option<&ToolCall>,
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
    let arguments = call.map(|call| ToolArguments::decode(conversation, call));
    let main = arguments.as_ref().and_then(ToolArguments::primary);
    let main = main.map(|text| line(text, wording::MAX_ARGUMENT_CHARS));
    let tool = line(tool, wording::MAX_TOOL_CHARS);
    Cow::Owned(wording::describe_cleared_result(
        &tool,
        main.as_deref(),
        tokens,
    ))
}

#[cfg(test)]
mod tests;
