//! The dialect of `POST …/chat/completions`: which keys mean what.

mod called;
mod cost;
mod keys;
mod output;
mod words;

use super::bypass::Bypass;
use super::chain::Scope;
use super::conversation::{
    Call, Content, Conversation, Envelope, Message, OutputKey, Part, PartKind, Role,
};
use super::recall::{Recall, Thread};
use super::scan::{Literal, NotJson, Scanner};
use super::span::Span;
use super::tokens::Tokens;
use called::Called;
use keys::{Key, Seen, known};
pub use output::asks_for_negative;
use output::output_limit;
use std::ops::Range;
use words::{part_kind, role_of};

/// The longest name of a model, in bytes as it is written. What is learned of models is kept by
/// name, and the names in use are below 100.
const MODEL_BYTES: usize = 512;
/// Messages of one body, with their parts and calls. What is worked out of one that says nothing takes
/// some 400 bytes, and no budget knows of it. A history of 80 MB has 40,000 of them.
const PIECES: usize = 262_144;
/// What the wrapping of a message costs in common chat templates.
const MESSAGE_TOKENS: Tokens = Tokens::new(4);

impl From<NotJson> for Bypass {
    fn from(_: NotJson) -> Self {
        Self::Malformed
    }
}

/// Reads a request body: one pass, spans only. Strict on what we act upon, blind to the rest.
///
/// # Errors
/// The reason to pass the body on untouched.
pub fn read(body: &[u8]) -> Result<Conversation<'_>, Bypass> {
    read_with(body, Reader::default())
}

/// The same for a caller whose messages may have been met before: those are not read again.
///
/// # Errors
/// As [`read`].
pub fn read_recalled<'a>(
    body: &'a [u8],
    scope: Scope,
    recall: &Recall,
) -> Result<Conversation<'a>, Bypass> {
    let reader = Reader {
        thread: Some(recall.thread(scope)),
        ..Reader::default()
    };
    read_with(body, reader)
}

fn read_with<'a>(body: &'a [u8], mut reader: Reader<'_>) -> Result<Conversation<'a>, Bypass> {
    let body = simdutf8::basic::from_utf8(body).map_err(|_| Bypass::Malformed)?;
    let mut scanner = Scanner::new(body);
    if scanner.peek() != Some(b'{') {
        scanner.value()?;
        scanner.finish()?;
        return Err(Bypass::Shape);
    }
    let mut seen = Seen::default();
    scanner.object(|scanner, key| reader.top_level(scanner, key, &mut seen))?;
    scanner.finish()?;
    if !seen.has(Key::Messages) {
        return Err(Bypass::Shape);
    }
    let Reader {
        envelope,
        messages,
        parts,
        calls,
        ..
    } = reader;
    Ok(Conversation::new(body, envelope, messages, parts, calls))
}

/// What has been read so far.
#[derive(Default)]
struct Reader<'r> {
    envelope: Envelope,
    messages: Vec<Message>,
    parts: Vec<Part>,
    calls: Vec<Call>,
    /// What was met before of what comes.
    thread: Option<Thread<'r>>,
}

/// A string, or null for none. Anything else is not for us to read.
fn string_or_null(scanner: &mut Scanner<'_>) -> Result<Option<Literal>, Bypass> {
    match scanner.peek() {
        Some(b'"') => Ok(Some(scanner.string()?)),
        Some(b'n') => {
            scanner.value()?;
            Ok(None)
        }
        _ => Err(wrong_type(scanner)),
    }
}

/// Tells a value of the wrong type from text that is no JSON at all.
fn wrong_type(scanner: &mut Scanner<'_>) -> Bypass {
    scanner.value().map_or(Bypass::Malformed, |_| Bypass::Shape)
}

impl Reader<'_> {
    fn top_level(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: Literal,
        seen: &mut Seen,
    ) -> Result<(), Bypass> {
        let spelt = key;
        let Some(key) = known(scanner, key) else {
            return Ok(scanner.skip()?);
        };
        match key {
            Key::MaxCompletionTokens => {
                seen.once(key)?;
                if let Some(limit) = output_limit(scanner, OutputKey::MaxCompletionTokens)? {
                    self.envelope.output = Some(limit);
                }
            }
            Key::MaxTokens => {
                seen.once(key)?;
                let limit = output_limit(scanner, OutputKey::MaxTokens)?;
                self.envelope.output = self.envelope.output.or(limit);
            }
            Key::Messages => {
                seen.once(key)?;
                if scanner.peek() != Some(b'[') {
                    return Err(wrong_type(scanner));
                }
                scanner.array(|scanner| self.message(scanner))?;
            }
            Key::Model => {
                seen.once(key)?;
                let model = string_or_null(scanner)?;
                if model.is_some_and(|model| model.span().len() > MODEL_BYTES) {
                    return Err(Bypass::Shape);
                }
                self.envelope.model = model;
            }
            Key::PromptCache => {
                if scanner.peek() == Some(b'"') {
                    self.envelope.prompt_cache_key = Some(scanner.string()?);
                } else {
                    scanner.skip()?;
                }
            }
            Key::Routing => {
                let value = scanner.value()?;
                self.envelope.routing.push((spelt, value));
            }
            Key::Reasoning | Key::Thinking => {
                let value = scanner.value()?;
                self.envelope.thinking.push((spelt, value));
            }
            Key::Stream => {
                seen.once(key)?;
                let span = scanner.value()?;
                self.envelope.streaming = span.slice(scanner.text()) == "true";
            }
            Key::Tools => {
                let schemas = scanner.value()?.slice(scanner.text());
                self.envelope.tools += Tokens::of_text(schemas);
            }
            Key::Arguments
            | Key::CacheControl
            | Key::Content
            | Key::Detail
            | Key::Function
            | Key::FunctionCall
            | Key::Id
            | Key::ImageUrl
            | Key::Name
            | Key::Refusal
            | Key::Role
            | Key::Text
            | Key::ToolCallId
            | Key::ToolCalls
            | Key::Type => scanner.skip()?,
        }
        Ok(())
    }

    /// Whether another message, part or call may be kept.
    fn make_room(&self) -> Result<(), Bypass> {
        let pieces = self.messages.len() + self.parts.len() + self.calls.len();
        if pieces < PIECES {
            Ok(())
        } else {
            Err(Bypass::TooLarge)
        }
    }

    /// Reads a message, or passes all that were met before in one look.
    fn message(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        self.make_room()?;
        if scanner.peek() != Some(b'{') {
            return Err(wrong_type(scanner));
        }
        let ahead = scanner.ahead();
        if let Some(thread) = &mut self.thread
            && let Some(met) = thread.meet(ahead)
        {
            let span = scanner.pass(met.len())?;
            met.put_at(span, &mut self.messages, &mut self.parts, &mut self.calls);
            thread.keep_page(scanner.text(), &self.messages);
            return Ok(());
        }
        let mut seen = Seen::default();
        let mut draft = Draft {
            parts: self.parts.len()..self.parts.len(),
            calls: self.calls.len()..self.calls.len(),
            ..Draft::default()
        };
        let span = scanner.object(|scanner, key| {
            let Some(key) = known(scanner, key) else {
                return Ok(scanner.skip()?);
            };
            self.member(scanner, key, &mut seen, &mut draft)
        })?;
        let role = draft.role.ok_or(Bypass::Shape)?;
        let mut message = self.finish(span, role, draft);
        if let Some(thread) = &mut self.thread {
            let parts = self.parts.get(message.parts.clone()).unwrap_or_default();
            let calls = self.calls.get(message.calls.clone()).unwrap_or_default();
            thread.keep(ahead, &mut message, parts, calls);
        }
        self.messages.push(message);
        Ok(())
    }

    /// Reads one member of a message that we act upon.
    fn member(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: Key,
        seen: &mut Seen,
        draft: &mut Draft,
    ) -> Result<(), Bypass> {
        match key {
            Key::Content => {
                seen.once(key)?;
                draft.content = self.content(scanner)?;
                if matches!(draft.content, Content::Parts(_)) {
                    draft.parts.end = self.parts.len();
                }
            }
            Key::FunctionCall | Key::ToolCalls => {
                seen.once(key)?;
                match scanner.peek() {
                    Some(b'[') => drop(scanner.array(|scanner| self.call(scanner))?),
                    Some(b'{') => self.call(scanner)?,
                    Some(b'n') => scanner.skip()?,
                    _ => return Err(wrong_type(scanner)),
                }
                draft.calls.end = self.calls.len();
            }
            Key::Name => {
                seen.once(key)?;
                draft.name = string_or_null(scanner)?;
            }
            Key::Reasoning => {
                seen.once(key)?;
                let span = scanner.value()?;
                if span.slice(scanner.text()) != "null" {
                    draft.reasons = true;
                    // Some providers return the same thoughts under several keys, and want them so.
                    let thought = chars(span.slice(scanner.text()));
                    draft.thought_chars = draft.thought_chars.max(thought);
                }
            }
            Key::Refusal => {
                seen.once(key)?;
                let span = scanner.value()?;
                draft.refusal_chars = chars(span.slice(scanner.text()));
            }
            Key::Role => {
                seen.once(key)?;
                let role = string_or_null(scanner)?.ok_or(Bypass::Shape)?;
                draft.role = Some(role_of(&role.decode(scanner.text())));
            }
            Key::ToolCallId => {
                seen.once(key)?;
                draft.answers = string_or_null(scanner)?;
            }
            Key::Arguments
            | Key::CacheControl
            | Key::Detail
            | Key::Function
            | Key::Id
            | Key::ImageUrl
            | Key::MaxCompletionTokens
            | Key::MaxTokens
            | Key::Messages
            | Key::Model
            | Key::PromptCache
            | Key::Routing
            | Key::Stream
            | Key::Text
            | Key::Thinking
            | Key::Tools
            | Key::Type => scanner.skip()?,
        }
        Ok(())
    }

    fn content(&mut self, scanner: &mut Scanner<'_>) -> Result<Content, Bypass> {
        match scanner.peek() {
            Some(b'"') => Ok(Content::Text(scanner.string()?)),
            Some(b'[') => Ok(Content::Parts(scanner.array(|scanner| self.part(scanner))?)),
            Some(b'n') => {
                scanner.value()?;
                Ok(Content::Null)
            }
            _ => Err(wrong_type(scanner)),
        }
    }

    fn part(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        self.make_room()?;
        if scanner.peek() != Some(b'{') {
            return Err(wrong_type(scanner));
        }
        let mut seen = Seen::default();
        let mut kind = PartKind::Other;
        let mut text = None;
        let mut cache_control = None;
        let mut is_coarse = false;
        let span = scanner.object(|scanner, key| {
            match known(scanner, key) {
                Some(Key::Type) => {
                    seen.once(Key::Type)?;
                    let name = string_or_null(scanner)?;
                    kind = name.map_or(PartKind::Other, |name| {
                        part_kind(&name.decode(scanner.text()))
                    });
                }
                Some(Key::Text) => {
                    seen.once(Key::Text)?;
                    text = string_or_null(scanner)?;
                }
                Some(Key::Detail | Key::ImageUrl) => is_coarse |= cost::is_coarse(scanner)?,
                Some(Key::CacheControl) => {
                    seen.once(Key::CacheControl)?;
                    let value = scanner.value()?;
                    cache_control = (value.slice(scanner.text()) != "null").then_some(value);
                }
                _ => scanner.skip()?,
            }
            Ok::<(), Bypass>(())
        })?;
        self.parts.push(Part {
            kind,
            span,
            text,
            cache_control,
            tokens: cost::of_part(kind, is_coarse, span.slice(scanner.text())),
        });
        Ok(())
    }

    /// An element of `tool_calls`, or a legacy `function_call`, whose name and arguments stand
    /// one level higher.
    fn call(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        self.make_room()?;
        if scanner.peek() != Some(b'{') {
            return Err(wrong_type(scanner));
        }
        let mut seen = Seen::default();
        let mut id = None;
        let mut beside = Called::default();
        let mut inside = Called::default();
        scanner.object(|scanner, key| match known(scanner, key) {
            Some(Key::Id) => {
                seen.once(Key::Id)?;
                id = string_or_null(scanner)?;
                Ok(())
            }
            Some(Key::Function) if scanner.peek() == Some(b'{') => {
                seen.once(Key::Function)?;
                let mut inner = Seen::default();
                scanner.object(|scanner, key| inside.member(scanner, key, &mut inner))?;
                Ok(())
            }
            _ => beside.member(scanner, key, &mut seen),
        })?;
        // Some servers repeat the name beside `function`; the upstream goes by the one inside.
        self.calls.push(Call {
            id,
            name: inside.name.or(beside.name),
            arguments: inside.arguments.or(beside.arguments),
        });
        Ok(())
    }

    fn finish(&self, span: Span, role: Role, draft: Draft) -> Message {
        let parts = self.parts.get(draft.parts.clone()).unwrap_or_default();
        let calls = self.calls.get(draft.calls.clone()).unwrap_or_default();
        let text_chars = match draft.content {
            Content::Text(text) => text.chars(),
            Content::Absent | Content::Null | Content::Parts(_) => parts
                .iter()
                .filter(|part| part.kind == PartKind::Text)
                .filter_map(|part| part.text)
                .fold(0_u32, |sum, text| sum.saturating_add(text.chars())),
        };
        let call_chars = calls
            .iter()
            .flat_map(|call| [call.name, call.arguments])
            .flatten()
            .fold(0_u32, |sum, part| sum.saturating_add(part.chars()));
        let other: Tokens = parts.iter().map(|part| part.tokens).sum();
        let chars = text_chars
            .saturating_add(call_chars)
            .saturating_add(draft.thought_chars)
            .saturating_add(draft.refusal_chars);
        Message {
            span,
            role,
            content: draft.content,
            answers: draft.answers,
            name: draft.name,
            reasons: draft.reasons,
            text_tokens: Tokens::of_chars(text_chars),
            tokens: MESSAGE_TOKENS + Tokens::of_chars(chars) + other,
            parts: draft.parts,
            calls: draft.calls,
            reading: None,
        }
    }
}

/// A message in the making.
struct Draft {
    role: Option<Role>,
    content: Content,
    answers: Option<Literal>,
    name: Option<Literal>,
    reasons: bool,
    thought_chars: u32,
    refusal_chars: u32,
    parts: Range<usize>,
    calls: Range<usize>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            role: None,
            content: Content::Absent,
            answers: None,
            name: None,
            reasons: false,
            thought_chars: 0,
            refusal_chars: 0,
            parts: 0..0,
            calls: 0..0,
        }
    }
}

fn chars(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
