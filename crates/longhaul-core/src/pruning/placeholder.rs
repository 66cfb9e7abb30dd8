//! Placeholder text that replaces a cleared tool result.

use crate::conversation::tool_arguments::ToolArguments;
use crate::conversation::{Content, Conversation, Message, ToolCall};
use crate::json::quote::needs_no_escape;
use crate::recall::RecallLink;
use crate::text::labels::LINE_ENDS;
use crate::text::wording;
use crate::units::tokens::Tokens;
use std::borrow::Cow;
use std::sync::Arc;

/// Kind of placeholder for cleared results.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Placeholder {
    /// Names the tool, its main argument and the size of the result.
    Described,
    /// A fixed text for every result.
    #[default]
    Fixed,
}

/// Placeholder for one result. Depends on that result and its call alone, so it never changes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PlaceholderText {
    line: Cow<'static, str>,
    /// Plain estimate of `line`.
    line_tokens: Tokens,
    /// Link of the last line, on how to read the result in full.
    recall: Option<Arc<RecallLink>>,
}

impl Placeholder {
    /// Builds the placeholder for a result of `tokens`, returned by a call to `tool`.
    pub(crate) fn text_for(
        self,
        conversation: &Conversation<'_>,
        call: Option<&ToolCall>,
        tool: &str,
        tokens: Tokens,
        recall: Option<&Arc<RecallLink>>,
    ) -> PlaceholderText {
        let (line, line_tokens) = match self {
            Self::Fixed => (Cow::Borrowed(wording::CLEARED), wording::CLEARED_TOKENS),
            Self::Described => {
                let line = describe(conversation, call, tool, tokens);
                let line_tokens = Tokens::estimate_text(&line);
                (line, line_tokens)
            }
        };
        PlaceholderText { line, line_tokens, recall: recall.cloned() }
    }
}

impl PlaceholderText {
    /// Upper bound of the placeholder's size.
    pub fn max_tokens(&self) -> Tokens {
        let recall = self.recall.as_ref().map(|link| link.line_tokens());
        self.line_tokens + recall.unwrap_or_default()
    }

    /// Whether the placeholder, without the index, is shorter than the result in bytes too. Escapes
    /// and wide characters in tool names or arguments can make it longer although it has fewer
    /// characters.
    pub(crate) fn shortens(&self, conversation: &Conversation<'_>, message: &Message) -> bool {
        match &self.recall {
            None => is_shorter(conversation, message, &self.line),
            Some(link) => {
                // Every line of a link is as long as the sample.
                let bytes = self.line.len() + 1 + link.sample.len();
                is_much_longer(message, bytes)
                    || is_shorter(conversation, message, &[&self.line, "\n", &link.sample].concat())
            }
        }
    }

    /// Returns the text that replaces the result in `message`.
    pub fn render(&self, conversation: &Conversation<'_>, message: &Message) -> Cow<'static, str> {
        let recall = self.recall.as_ref().map(|link| {
            let hash = conversation.text_hash(message);
            link.line(link.result_id(&hash))
        });
        match recall {
            Some(line) => Cow::Owned([&*self.line, "\n", &line].concat()),
            None => self.line.clone(),
        }
    }
}

/// Whether `message` already holds a placeholder, from longhaul or in the same wording.
pub(crate) fn is_placeholder(conversation: &Conversation<'_>, message: &Message) -> bool {
    let first = conversation.texts(message).find(|text| text.chars() > 0);
    let may_be = first.is_some_and(|text| may_be_placeholder(text.raw(conversation.body())));
    may_be && is_placeholder_text(&conversation.text(message))
}

/// Whether `text` is a placeholder, from longhaul or from an agent with the same wording. Longer
/// texts do not count; otherwise the author of a result could protect all of it from clearing.
fn is_placeholder_text(text: &str) -> bool {
    const DESCRIPTION: usize =
        wording::MAX_TOOL_CHARS + wording::MAX_ARGUMENT_CHARS + "  , about 4294967295 tokens".len();
    let (text, _) = wording::split_recall_line(text);
    if text == wording::CLEARED {
        return true;
    }
    let described = |rest: &str| !rest.contains('\n') && rest.chars().nth(DESCRIPTION).is_none();
    text.strip_prefix(wording::CLEARED_PREFIX)
        .and_then(|rest| rest.strip_suffix(']'))
        .and_then(|rest| rest.strip_prefix(':'))
        .is_some_and(described)
}

/// Whether a text, undecoded, begins like a placeholder, escaped or not. Text with another beginning
/// need not be decoded.
fn may_be_placeholder(raw: &str) -> bool {
    matches!(raw.as_bytes(), [b'[', b'O' | b'\\', ..] | [b'\\', b'u', b'0', b'0', b'5', ..])
}

/// Whether `message` is a string that no placeholder of `bytes` can exceed: an escape takes at most six
/// bytes.
fn is_much_longer(message: &Message, bytes: usize) -> bool {
    matches!(message.content, Content::Text(text) if text.span().len() > 6 * bytes + 2)
}

/// Whether `placeholder`, in the shape of the content of `message`, takes fewer bytes than the content.
pub(crate) fn is_shorter(
    conversation: &Conversation<'_>,
    message: &Message,
    placeholder: &str,
) -> bool {
    if is_much_longer(message, placeholder.len()) {
        return true;
    }
    if let Content::Text(text) = message.content {
        // Besides its quotation marks, a placeholder only grows by escapes.
        if text.span().len() <= placeholder.len() + 2 {
            return false;
        }
        if needs_no_escape(placeholder) {
            return true;
        }
    }
    let content = message.content.span();
    let replacement = conversation.dialect().content_in_shape(conversation, message, placeholder);
    content.zip(replacement).is_some_and(|(content, replacement)| replacement.len() < content.len())
}

/// Describes the cleared result; falls back to the fixed text if no tool is named.
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
        let chars = text.chars().take(chars);
        let line: String = chars.map(|c| if LINE_ENDS.contains(&c) { ' ' } else { c }).collect();
        wording::without_marks(&line).into_owned()
    };
    let arguments = call.map(|call| ToolArguments::decode(conversation, call));
    let main = arguments.as_ref().and_then(ToolArguments::primary);
    let main = main.map(|text| line(text, wording::MAX_ARGUMENT_CHARS));
    let tool = line(tool, wording::MAX_TOOL_CHARS);
    Cow::Owned(wording::describe_cleared_result(&tool, main.as_deref(), tokens))
}

#[cfg(test)]
mod tests;
