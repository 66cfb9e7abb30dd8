//! Reader of a request body.

mod item;
#[cfg(test)]
mod tests;

use super::keys::RequestKey;
use super::steps;
use crate::conversation::parse_cache::ParseCache;
use crate::conversation::{Content, Conversation, HistoryKeeper, Message, NeighbourLink, Role};
use crate::dialect::Dialect;
use crate::dialect::body_reader::{BodyReader, MESSAGE_OVERHEAD_TOKENS};
use crate::dialect::bypass::Bypass;
use crate::dialect::request_values::{
    read_flag, read_model, read_output_limit, read_string, string_or_null, wrong_type,
};
use crate::json::scanner::{Literal, Scanner};
use crate::units::scope::Scope;
use crate::units::tokens::Tokens;

const DIALECT: Dialect = Dialect::Responses;

/// See [`Dialect::read`].
pub fn read(body: &[u8]) -> Result<Conversation<'_>, Bypass> {
    read_with(body, None)
}

/// Reads a body, and takes the items that `cache` has for its scope from there.
pub(in crate::dialect) fn read_with<'a>(
    body: &'a [u8],
    cache: Option<(Scope, &ParseCache)>,
) -> Result<Conversation<'a>, Bypass> {
    let (reader, body, seen) = RequestReader::read(DIALECT, body, cache, RequestReader::member)?;
    let is_stateful = reader.params.history == HistoryKeeper::Provider;
    // A body with the keys of two APIs belongs to neither.
    if seen.contains(RequestKey::Messages) || !(reader.own || is_stateful) {
        return Err(Bypass::Shape);
    }
    let BodyReader { mut params, pieces, .. } = reader;
    let is_reference = |item: &Message| item.binding == NeighbourLink::Reference;
    params.is_partial |= is_stateful || pieces.messages.iter().any(is_reference);
    let is_order = |item: &Message| item.binding == NeighbourLink::CompactionOrder;
    let is_client = params.history == HistoryKeeper::Client;
    if is_client && pieces.messages.iter().any(is_order) {
        params.history = HistoryKeeper::OrderedCompaction;
    }
    let (pieces, rules) = steps::messages(body, pieces);
    Ok(Conversation::new(DIALECT, body, params, pieces, &rules))
}

/// The state besides that of every dialect: whether the body has an input that is not null.
type RequestReader<'r> = BodyReader<'r, bool>;

impl RequestReader<'_> {
    fn member(
        &mut self,
        scanner: &mut Scanner<'_>,
        spelt: Literal,
        key: RequestKey,
    ) -> Result<(), Bypass> {
        match key {
            RequestKey::ContextManagement => {
                if !matches!(scanner.json()?, "null" | "[]") {
                    self.keep(HistoryKeeper::CompactingProvider);
                }
            }
            RequestKey::Conversation | RequestKey::PreviousResponse => {
                if scanner.json()? != "null" {
                    self.params.history = HistoryKeeper::Provider;
                }
            }
            RequestKey::Input => self.input(scanner)?,
            RequestKey::Instructions => {
                self.params.instructions = string_or_null(scanner)?;
                let chars = self.params.instructions.map_or(0, Literal::chars);
                self.params.tool_tokens += Tokens::estimate_chars(chars);
            }
            RequestKey::MaxOutputTokens => {
                self.params.output_limit = read_output_limit(scanner, spelt)?;
            }
            RequestKey::Messages => scanner.skip()?,
            RequestKey::Model => self.params.model = read_model(scanner)?,
            RequestKey::Prompt => self.params.is_partial = scanner.json()? != "null",
            RequestKey::PromptCache => self.params.prompt_cache_key = read_string(scanner)?,
            RequestKey::Reasoning => self.keep_reasoning(scanner, spelt)?,
            RequestKey::Routing => self.params.routing.push((spelt, scanner.value()?)),
            RequestKey::Stream => self.params.streaming = read_flag(scanner)?,
            RequestKey::Tools => self.read_tools(scanner)?,
        }
        Ok(())
    }

    /// Reads the input: an array of items, or a string in place of one user message.
    fn input(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        match scanner.peek() {
            Some(b'[') => {
                self.own = true;
                scanner.array(|scanner| self.item(scanner))?;
                Ok(())
            }
            Some(b'"') => {
                self.own = true;
                let text = scanner.string()?;
                let text_tokens = Tokens::estimate_chars(text.chars());
                self.pieces.messages.push(Message {
                    content: Content::Text(text),
                    text_tokens,
                    tokens: MESSAGE_OVERHEAD_TOKENS + text_tokens,
                    ..Message::empty(text.span(), Role::User)
                });
                Ok(())
            }
            Some(b'n') => Ok(scanner.skip()?),
            _ => Err(wrong_type(scanner)),
        }
    }
}
