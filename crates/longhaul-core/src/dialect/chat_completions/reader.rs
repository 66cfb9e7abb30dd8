//! Reader of a request body.

use std::ops::Range;

use super::keys::{CallKey, MessageKey, RequestKey};
use crate::conversation::parse_cache::ParseCache;
use crate::conversation::{
    Content, ContentPart, Conversation, CutRules, Message, PartKind, Role, ToolCall,
};
use crate::dialect::Dialect;
use crate::dialect::body_reader::{BodyReader, MESSAGE_OVERHEAD_TOKENS};
use crate::dialect::bypass::Bypass;
use crate::dialect::chat_completions::bound_thinking;
use crate::dialect::part_reader::PartKey;
use crate::dialect::request_values::{
    SeenKeys, expect_start, known_key, read_flag, read_model, read_output_limit, read_string,
    role_from_name, string_or_null, wrong_type,
};
use crate::json::scanner::{Literal, Scanner};
use crate::json::span::Span;
use crate::units::scope::Scope;
use crate::units::tokens::Tokens;

const DIALECT: Dialect = Dialect::ChatCompletions;

/// See [`Dialect::read`].
pub fn read(body: &[u8]) -> Result<Conversation<'_>, Bypass> {
    read_with(body, None)
}

/// Reads a body, and takes the messages that `cache` has for its scope from there.
pub(in crate::dialect) fn read_with<'a>(
    body: &'a [u8],
    cache: Option<(Scope, &ParseCache)>,
) -> Result<Conversation<'a>, Bypass> {
    let (reader, body, seen) = RequestReader::read(DIALECT, body, cache, RequestReader::member)?;
    if !seen.contains(RequestKey::Messages) {
        return Err(Bypass::Shape);
    }
    let (params, pieces, rules) = (reader.params, reader.pieces, CutRules::default());
    Ok(Conversation::new(DIALECT, body, params, pieces, &rules))
}

type RequestReader<'r> = BodyReader<'r, ()>;

impl RequestReader<'_> {
    fn member(
        &mut self,
        scanner: &mut Scanner<'_>,
        spelt: Literal,
        key: RequestKey,
    ) -> Result<(), Bypass> {
        match key {
            RequestKey::MaxCompletionTokens => {
                let limit = read_output_limit(scanner, spelt)?;
                self.params.output_limit = limit.or(self.params.output_limit);
            }
            RequestKey::MaxTokens => {
                let limit = read_output_limit(scanner, spelt)?;
                self.params.output_limit = self.params.output_limit.or(limit);
            }
            RequestKey::Messages => {
                expect_start(scanner, b'[')?;
                scanner.array(|scanner| self.message(scanner))?;
            }
            RequestKey::Model => self.params.model = read_model(scanner)?,
            RequestKey::PromptCache => self.params.prompt_cache_key = read_string(scanner)?,
            RequestKey::Routing => self.params.routing.push((spelt, scanner.value()?)),
            RequestKey::Thinking => self.keep_reasoning(scanner, spelt)?,
            RequestKey::Stream => self.params.streaming = read_flag(scanner)?,
            RequestKey::Tools => self.read_tools(scanner)?,
        }
        Ok(())
    }

    /// Reads a message, or skips all cached messages with one look-up.
    fn message(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        if self.skip_cached(scanner)? {
            return Ok(());
        }
        let ahead = scanner.remaining();
        let mut seen = SeenKeys::default();
        let mut draft = MessageDraft {
            parts: self.pieces.parts.len()..self.pieces.parts.len(),
            calls: self.pieces.calls.len()..self.pieces.calls.len(),
            ..MessageDraft::default()
        };
        let span = scanner.object(|scanner, key| match seen.next(scanner, key)? {
            Some(key) => self.message_member(scanner, key, &mut draft),
            None => Ok(scanner.skip()?),
        })?;
        let role = draft.role.ok_or(Bypass::Shape)?;
        let message = self.build_message(span, role, draft);
        self.push_message(message, ahead);
        Ok(())
    }

    fn message_member(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: MessageKey,
        draft: &mut MessageDraft,
    ) -> Result<(), Bypass> {
        match key {
            MessageKey::Content => {
                draft.content = self.content(scanner)?;
                if matches!(draft.content, Content::Parts(_)) {
                    draft.parts.end = self.pieces.parts.len();
                }
            }
            MessageKey::FunctionCall | MessageKey::ToolCalls => {
                match scanner.peek() {
                    Some(b'[') => drop(scanner.array(|scanner| self.call(scanner))?),
                    Some(b'{') => self.call(scanner)?,
                    Some(b'n') => scanner.skip()?,
                    _ => return Err(wrong_type(scanner)),
                }
                draft.calls.end = self.pieces.calls.len();
            }
            MessageKey::Name => draft.name = string_or_null(scanner)?,
            MessageKey::Reasoning => {
                let thought = scanner.json()?;
                if thought != "null" {
                    draft.add_reasoning(thought);
                }
            }
            MessageKey::Refusal => draft.refusal_chars = char_count(scanner.json()?),
            MessageKey::Role => {
                let role = string_or_null(scanner)?.ok_or(Bypass::Shape)?;
                draft.role = Some(role_from_name(&role.decode(scanner.text()), Role::ALL));
            }
            MessageKey::ToolCallId => draft.tool_call_id = string_or_null(scanner)?,
        }
        Ok(())
    }

    fn content(&mut self, scanner: &mut Scanner<'_>) -> Result<Content, Bypass> {
        match scanner.peek() {
            Some(b'"') => Ok(Content::Text(scanner.string()?)),
            Some(b'[') => Ok(Content::Parts(scanner.array(|scanner| {
                expect_start(scanner, b'{')?;
                self.part(scanner, PartKey::CacheControl, &mut Vec::new())
            })?)),
            Some(b'n') => Ok(scanner.skip().map(|()| Content::Absent)?),
            _ => Err(wrong_type(scanner)),
        }
    }

    /// Reads an element of `tool_calls`, or a legacy `function_call`, which has name and arguments
    /// one level higher.
    fn call(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        self.check_piece_limit()?;
        expect_start(scanner, b'{')?;
        let mut seen = SeenKeys::default();
        let mut id = None;
        let mut outer = CalledFunction::default();
        let mut inner = CalledFunction::default();
        scanner.object(|scanner, key| match known_key(scanner, key) {
            Some(CallKey::Id) => {
                seen.insert_once(CallKey::Id)?;
                id = string_or_null(scanner)?;
                Ok(())
            }
            Some(CallKey::Function) if scanner.peek() == Some(b'{') => {
                seen.insert_once(CallKey::Function)?;
                let mut inner_seen = SeenKeys::default();
                scanner.object(|scanner, key| inner.read_member(scanner, key, &mut inner_seen))?;
                Ok(())
            }
            _ => outer.read_member(scanner, key, &mut seen),
        })?;
        // Some servers repeat the name next to `function`; the upstream uses the inner one.
        self.pieces.calls.push(ToolCall {
            id,
            name: inner.name.or(outer.name),
            arguments: inner.arguments.or(outer.arguments),
        });
        Ok(())
    }

    fn build_message(&self, span: Span, role: Role, draft: MessageDraft) -> Message {
        let parts = self.pieces.parts.get(draft.parts.clone()).unwrap_or_default();
        let calls = self.pieces.calls.get(draft.calls.clone()).unwrap_or_default();
        let text_chars = draft.content.text_chars(parts);
        let called = calls.iter().flat_map(|call| [call.name, call.arguments]).flatten();
        let chars = [text_chars, draft.reasoning_chars, draft.refusal_chars].into_iter();
        let chars = chars.chain(called.map(Literal::chars)).fold(0, u32::saturating_add);
        let other: Tokens = parts.iter().map(|part| part.tokens).sum();
        let bound_thinking = draft.bound_thinking(parts);
        Message {
            content: draft.content,
            tool_call_id: draft.tool_call_id,
            name: draft.name,
            has_reasoning: draft.has_reasoning || bound_thinking.is_some(),
            bound_thinking,
            text_tokens: Tokens::estimate_chars(text_chars),
            tokens: MESSAGE_OVERHEAD_TOKENS + Tokens::estimate_chars(chars) + other,
            parts: draft.parts,
            calls: draft.calls,
            ..Message::empty(span, role)
        }
    }
}

#[derive(Default)]
struct CalledFunction {
    name: Option<Literal>,
    arguments: Option<Literal>,
}

impl CalledFunction {
    /// Reads one member of the object that holds name and arguments.
    fn read_member(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: Literal,
        seen: &mut SeenKeys,
    ) -> Result<(), Bypass> {
        match known_key(scanner, key) {
            Some(CallKey::Name) => {
                seen.insert_once(CallKey::Name)?;
                self.name = string_or_null(scanner)?;
            }
            Some(CallKey::Arguments) if scanner.peek() == Some(b'"') => {
                seen.insert_once(CallKey::Arguments)?;
                self.arguments = Some(scanner.string()?);
            }
            _ => scanner.skip()?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct MessageDraft {
    role: Option<Role>,
    content: Content,
    tool_call_id: Option<Literal>,
    name: Option<Literal>,
    has_reasoning: bool,
    reasoning_chars: u32,
    /// The part of `reasoning_chars` that stays without bound thinking.
    unbound_chars: u32,
    is_bound: bool,
    refusal_chars: u32,
    parts: Range<usize>,
    calls: Range<usize>,
}

impl MessageDraft {
    /// Adds reasoning, spelt `raw`. Some providers return the same reasoning under several keys and
    /// require it back that way, so the longest counts.
    fn add_reasoning(&mut self, raw: &str) {
        let chars = char_count(raw);
        self.has_reasoning = true;
        self.reasoning_chars = self.reasoning_chars.max(chars);
        if bound_thinking::is_bound(raw) {
            self.is_bound = true;
        } else {
            self.unbound_chars = self.unbound_chars.max(chars);
        }
    }

    /// Returns the estimate of the bound thinking, in members of the message or among its `parts`.
    fn bound_thinking(&self, parts: &[ContentPart]) -> Option<Tokens> {
        let mut thinking = parts
            .iter()
            .filter(|part| part.kind == PartKind::Thinking)
            .map(|it| it.tokens)
            .peekable();
        let is_bound = self.is_bound || thinking.peek().is_some();
        let chars = self.reasoning_chars - self.unbound_chars;
        is_bound.then(|| thinking.sum::<Tokens>() + Tokens::estimate_chars(chars))
    }
}

/// Returns the number of Unicode characters of `text`, at most `u32::MAX`.
fn char_count(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
