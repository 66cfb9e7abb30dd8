//! Reader of a request body.

mod item;
mod part;
#[cfg(test)]
mod tests;

use super::keys::{RequestKey, SeenKeys};
use super::steps::{self, Items};
use crate::conversation::parse_cache::{ParseCache, ParseCursor};
use crate::conversation::{
    Content, Conversation, HistoryKeeper, Message, NeighbourLink, OutputLimit, RequestParams, Role,
};
use crate::dialect::Dialect;
use crate::dialect::bypass::Bypass;
use crate::dialect::reasoning_option::read_reasoning_option;
use crate::dialect::request_values::{
    MAX_MODEL_NAME_BYTES, MAX_PIECES, string_or_null, wrong_type,
};
use crate::dialect::responses::estimate::ITEM_OVERHEAD_TOKENS;
use crate::json::scanner::{Literal, Scanner};
use crate::units::scope::Scope;
use crate::units::tokens::Tokens;

const DIALECT: Dialect = Dialect::Responses;

/// See [`Dialect::read`].
///
/// # Errors
/// See [`Dialect::read`].
pub fn read(body: &[u8]) -> Result<Conversation<'_>, Bypass> {
    read_with(body, RequestReader::default())
}

/// See [`Dialect::read_cached`].
///
/// # Errors
/// See [`Dialect::read`].
pub fn read_cached<'a>(
    body: &'a [u8],
    scope: Scope,
    cache: &ParseCache,
) -> Result<Conversation<'a>, Bypass> {
    let reader = RequestReader {
        cursor: Some(cache.cursor(scope, DIALECT)),
        ..RequestReader::default()
    };
    read_with(body, reader)
}

fn read_with<'a>(
    body: &'a [u8],
    mut reader: RequestReader<'_>,
) -> Result<Conversation<'a>, Bypass> {
    let body = simdutf8::basic::from_utf8(body).map_err(|_| Bypass::Malformed)?;
    let mut scanner = Scanner::new(body);
    if scanner.peek() != Some(b'{') {
        scanner.value()?;
        scanner.finish()?;
        return Err(Bypass::Shape);
    }
    let mut seen = SeenKeys::default();
    scanner.object(|scanner, key| match seen.next(scanner, key)? {
        Some(known) => reader.request_member(scanner, key, known),
        None => Ok(scanner.skip()?),
    })?;
    scanner.finish()?;
    let is_stateful = reader.params.history == HistoryKeeper::Provider;
    // A body with the keys of two APIs belongs to neither.
    if seen.contains(RequestKey::Messages) || !(reader.has_input || is_stateful) {
        return Err(Bypass::Shape);
    }
    let RequestReader {
        mut params, items, ..
    } = reader;
    let is_reference = |item: &Message| item.binding == NeighbourLink::Reference;
    params.is_partial |= is_stateful || items.messages.iter().any(is_reference);
    let is_order = |item: &Message| item.binding == NeighbourLink::CompactionOrder;
    let is_client = params.history == HistoryKeeper::Client;
    if is_client && items.messages.iter().any(is_order) {
        params.history = HistoryKeeper::OrderedCompaction;
    }
    let (pieces, rules) = steps::messages(body, items);
    Ok(Conversation::with_cut_rules(
        DIALECT, body, params, pieces, &rules,
    ))
}

/// State of one pass over a body.
#[derive(Default)]
struct RequestReader<'r> {
    params: RequestParams,
    /// Whether the body has an input that is not null.
    has_input: bool,
    items: Items,
    /// Cursor over the cached items, if there is a cache.
    cursor: Option<ParseCursor<'r>>,
}

impl RequestReader<'_> {
    fn request_member(
        &mut self,
        scanner: &mut Scanner<'_>,
        spelt: Literal,
        key: RequestKey,
    ) -> Result<(), Bypass> {
        match key {
            RequestKey::ContextManagement => {
                let value = scanner.value()?.slice(scanner.text());
                if !matches!(value, "null" | "[]") {
                    self.set_history(HistoryKeeper::CompactingProvider);
                }
            }
            RequestKey::Conversation | RequestKey::PreviousResponse => {
                if scanner.value()?.slice(scanner.text()) != "null" {
                    self.set_history(HistoryKeeper::Provider);
                }
            }
            RequestKey::Input => self.input(scanner)?,
            RequestKey::Instructions => {
                self.params.instructions = string_or_null(scanner)?;
                let chars = self.params.instructions.map_or(0, Literal::chars);
                self.params.tool_tokens += Tokens::estimate_chars(chars);
            }
            RequestKey::MaxOutputTokens => {
                let span = scanner.value()?;
                let number = span.slice(scanner.text()).parse().ok();
                self.params.output_limit = number.map(|tokens| OutputLimit {
                    key: spelt,
                    span,
                    tokens: Tokens::new(tokens),
                });
            }
            RequestKey::Messages => scanner.skip()?,
            RequestKey::Model => {
                let model = string_or_null(scanner)?;
                if model.is_some_and(|model| model.span().len() > MAX_MODEL_NAME_BYTES) {
                    return Err(Bypass::Shape);
                }
                self.params.model = model;
            }
            RequestKey::Prompt => {
                self.params.is_partial = scanner.value()?.slice(scanner.text()) != "null";
            }
            RequestKey::PromptCache => {
                if scanner.peek() == Some(b'"') {
                    self.params.prompt_cache_key = Some(scanner.string()?);
                } else {
                    scanner.skip()?;
                }
            }
            RequestKey::Reasoning => {
                let (value, granted) = read_reasoning_option(scanner)?;
                self.params.reasoning_budget = granted;
                self.params.thinking.push((spelt, value));
            }
            RequestKey::Routing => {
                let value = scanner.value()?;
                self.params.routing.push((spelt, value));
            }
            RequestKey::Stream => {
                let span = scanner.value()?;
                self.params.streaming = span.slice(scanner.text()) == "true";
            }
            RequestKey::Tools => {
                let schemas = scanner.value()?.slice(scanner.text());
                self.params.tool_tokens += Tokens::estimate_text(schemas);
            }
        }
        Ok(())
    }

    /// Sets the keeper of the history, unless the provider keeps it already.
    fn set_history(&mut self, keeper: HistoryKeeper) {
        if self.params.history != HistoryKeeper::Provider {
            self.params.history = keeper;
        }
    }

    /// Reads the input: an array of items, or a string in place of one user message.
    fn input(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        match scanner.peek() {
            Some(b'[') => {
                self.has_input = true;
                scanner.array(|scanner| self.item(scanner))?;
                Ok(())
            }
            Some(b'"') => {
                self.has_input = true;
                let text = scanner.string()?;
                let text_tokens = Tokens::estimate_chars(text.chars());
                self.items.messages.push(Message {
                    span: text.span(),
                    role: Role::User,
                    content: Content::Text(text),
                    tool_call_id: None,
                    name: None,
                    has_reasoning: false,
                    binding: NeighbourLink::Free,
                    bound_thinking: None,
                    is_error: false,
                    is_fixed: false,
                    text_tokens,
                    tokens: ITEM_OVERHEAD_TOKENS + text_tokens,
                    parts: 0..0,
                    calls: 0..0,
                    cached: None,
                });
                Ok(())
            }
            Some(b'n') => Ok(scanner.skip()?),
            _ => Err(wrong_type(scanner)),
        }
    }

    /// Checks that another item, part or call may be stored.
    fn check_piece_limit(&self) -> Result<(), Bypass> {
        if self.items.pieces() < MAX_PIECES {
            Ok(())
        } else {
            Err(Bypass::TooLarge)
        }
    }
}
