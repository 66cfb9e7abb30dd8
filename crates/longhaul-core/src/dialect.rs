//! Wire dialects: the keys, paths, headers, texts and events of each API.
//!
//! Each seam is a fact of [`DialectFacts`], or a method of [`Dialect`]. A method matches exhaustively, by
//! `dispatch!` or by itself, and delegates into the folder of the dialect. No code outside this folder
//! names an API, its paths or a key of its requests and replies. The members of errors are the
//! exception, since they are alike in every dialect: `overflow::error_details` and the program's
//! `summaries::reply::error_status` read them. ARCHITECTURE lists what else a new dialect needs.

mod body_reader;
pub mod bypass;
pub mod chat_completions;
pub mod compress_api;
pub mod dropped_reasoning;
pub mod facts;
pub(crate) mod frames;
pub mod messages;
mod part_reader;
mod provider_compaction;
pub mod reasoning_option;
pub mod reply;
mod request_head;
pub(crate) mod request_template;
mod request_values;
pub mod responses;
mod summary_members;
pub mod thinking_binding;
pub mod usage;

use crate::FORM_VERSION;
use crate::conversation::parse_cache::ParseCache;
use crate::conversation::{Conversation, Message};
use crate::dialect::bypass::Bypass;
use crate::dialect::facts::DialectFacts;
use crate::json::scanner::{NotJson, Scanner, members};
use crate::json::span::Span;
use crate::units::scope::Scope;
use crate::units::tokens::Tokens;
pub(crate) use request_head::percent_decoded;

/// An API's wire format.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Dialect {
    /// `POST …/chat/completions`.
    ChatCompletions,
    /// Anthropic's `POST …/v1/messages`.
    Messages,
    /// `POST …/responses`.
    Responses,
}

/// Selects the item of this path in the folder of a dialect.
macro_rules! dispatch {
    ($dialect:expr, $($item:tt)+) => {
        match $dialect {
            $crate::dialect::Dialect::ChatCompletions => $crate::dialect::chat_completions::$($item)+,
            $crate::dialect::Dialect::Messages => $crate::dialect::messages::$($item)+,
            $crate::dialect::Dialect::Responses => $crate::dialect::responses::$($item)+,
        }
    };
}

use dispatch;

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 3] = [Self::ChatCompletions, Self::Messages, Self::Responses];

    /// Returns the API's name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat-completions",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// Returns the facts about the API.
    pub fn facts(self) -> &'static DialectFacts {
        match self {
            Self::ChatCompletions => &chat_completions::FACTS,
            Self::Messages => &messages::FACTS,
            Self::Responses => &responses::FACTS,
        }
    }

    /// Returns the version of the forwarded bytes. The versions of two dialects differ, so that
    /// neither uses records or cached parses of the other.
    pub(crate) fn form_version(self) -> u32 {
        self.facts().form | FORM_VERSION
    }

    /// Reads a request body in one pass, recording spans only. Checks the keys that longhaul uses
    /// strictly and ignores all others.
    ///
    /// # Errors
    /// The reason to forward the body unchanged.
    pub fn read(self, body: &[u8]) -> Result<Conversation<'_>, Bypass> {
        dispatch!(self, read_with(body, None))
    }

    /// Like [`read`](Self::read), but takes messages that `cache` has for `scope` from the cache.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_cached<'a>(
        self,
        body: &'a [u8],
        scope: Scope,
        cache: &ParseCache,
    ) -> Result<Conversation<'a>, Bypass> {
        dispatch!(self, read_with(body, Some((scope, cache))))
    }

    /// Counts the messages of a body, or the items of its input.
    pub fn count_items(self, body: &str) -> usize {
        let list = self.facts().list_key;
        let mut count = 0;
        // The count of a body that breaks off is that of its beginning.
        let _: Result<_, NotJson> = Scanner::new(body).object(|scanner, key| {
            if key.decode(body) != list || scanner.peek() != Some(b'[') {
                return scanner.skip();
            }
            scanner.array(|scanner| {
                count += 1;
                scanner.skip()
            })?;
            Ok::<(), NotJson>(())
        });
        count
    }

    /// Reads a body that came without a path, in the first dialect whose shape it has.
    ///
    /// # Errors
    /// The body has no dialect's shape, or is unusable.
    pub fn read_any(body: &[u8]) -> Result<Conversation<'_>, Bypass> {
        if messages::has_own_shape(body) {
            return Self::Messages.read(body);
        }
        let mut readings = Self::ALL.into_iter().map(|dialect| dialect.read(body));
        let first = readings.find(|reading| !matches!(reading, Err(Bypass::Shape)));
        first.unwrap_or(Err(Bypass::Shape))
    }

    /// Whether a body has a negative output limit.
    ///
    /// Clients that subtract the prompt from an assumed window send a negative limit once none is
    /// left. The upstream's error about that number does not show the upstream's own window.
    pub fn has_negative_output_limit(self, body: &str) -> bool {
        let keys = self.facts().output_limit_keys;
        let is_negative = |value: &str| value.parse::<i64>().is_ok_and(i64::is_negative);
        members(body).any(|(key, value)| keys.contains(&&*key) && is_negative(value))
    }

    /// Returns the names of the tools that a part of a message refers to, as the result of a search. Their
    /// definitions stay with the provider. Skips names that are not plain identifiers:
    /// a tool may have written them.
    pub(crate) fn searched_tools(self, part: &str) -> Vec<&str> {
        match self {
            // No part of these dialects refers to a definition.
            Self::ChatCompletions | Self::Responses => Vec::new(),
            Self::Messages => messages::server_tools::referenced(part),
        }
    }

    /// Returns the spans of the bound thinking of `message`, ascending and without their commas.
    /// Each is a member or an element that can be removed whole; a message without anything else is
    /// one span.
    pub(crate) fn bound_thinking(self, body: &str, message: &Message) -> Vec<Span> {
        match self {
            Self::ChatCompletions | Self::Messages => {
                chat_completions::bound_thinking::spans(body, message)
            }
            // Reasoning is bound to its neighbours, which it stays with.
            Self::Responses => Vec::new(),
        }
    }

    /// Counts the items or blocks of reasoning of `message`.
    pub(crate) fn reasoning_items(self, body: &str, message: &Message) -> usize {
        match self {
            Self::ChatCompletions | Self::Messages => self.bound_thinking(body, message).len(),
            Self::Responses => responses::steps::reasoning_items(message.span.slice(body)),
        }
    }

    /// Formats `text` as the content of `message`: a string if the content was a string, or one
    /// text part if it was an array. The part carries the array's last cache mark. Returns `None`
    /// if the message has no content.
    pub(crate) fn content_in_shape(
        self,
        conversation: &Conversation<'_>,
        message: &Message,
        text: &str,
    ) -> Option<String> {
        dispatch!(self, writer::content_in_shape(conversation, message, text))
    }

    /// Formats a text part of `text`, a JSON string, with the value of a cache mark.
    pub(crate) fn text_part(self, text: &str, cache_mark: Option<&str>) -> String {
        let facts = self.facts();
        let mark = cache_mark.map(|mark| format!(",\"{}\":{mark}", facts.cache_mark_key));
        let mark = mark.unwrap_or_default();
        [facts.text_part_start, text, &mark, "}"].concat()
    }

    pub(crate) fn user_message(self, content: &str) -> String {
        dispatch!(self, writer::user_message(content))
    }

    /// Returns the body `forwarded` with its messages truncated at byte `upto` and the JSON string
    /// `prompt` appended as a user message.
    pub(crate) fn append_summary_prompt(
        self,
        forwarded: &str,
        upto: usize,
        prompt: &str,
        output: Tokens,
    ) -> Option<String> {
        dispatch!(self, summary_request::append_prompt(forwarded, upto, prompt, output))
    }

    /// Formats the body of an error reply of longhaul itself, whose HTTP status is `status`.
    pub fn error_body(self, status: u16, code: &str, message: &str) -> Vec<u8> {
        match self {
            // The APIs of one author share the format.
            Self::ChatCompletions | Self::Responses => {
                chat_completions::error_body(status, code, message)
            }
            Self::Messages => messages::error_body(status, code, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_shape_selects_the_dialect_without_a_path() {
        let read = |body: &str| Dialect::read_any(body.as_bytes()).map(|it| it.dialect());
        let dialect = Ok(Dialect::ChatCompletions);
        assert_eq!(read(r#"{"messages":[]}"#), dialect);
        assert_eq!(read(r#"{"input":[]}"#), Ok(Dialect::Responses));
        assert_eq!(read(r#"{"input":"hi"}"#), Ok(Dialect::Responses));
        assert_eq!(read(r#"{"prompt":"hi"}"#), Err(Bypass::Shape));
        assert_eq!(read("{"), Err(Bypass::Malformed));
    }
}
