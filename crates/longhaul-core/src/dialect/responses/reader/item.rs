//! Items of an input, each read to a message of its own.

use std::ops::Range;

use super::RequestReader;
use crate::conversation::{Content, ContentPart, Message, NeighbourLink, PartKind, Role, ToolCall};
use crate::dialect::body_reader::MESSAGE_OVERHEAD_TOKENS;
use crate::dialect::bypass::Bypass;
use crate::dialect::part_reader::{PartKey, part_tokens};
use crate::dialect::request_values::{
    SeenKeys, is_of_program, read_string, role_from_name, string_or_null,
};
use crate::dialect::responses::keys::ItemKey;
use crate::dialect::responses::{encrypted_tokens, is_hosted};
use crate::json::scanner::{Literal, Scanner};
use crate::json::span::Span;
use crate::units::tokens::Tokens;

#[derive(Debug, Default)]
struct ItemDraft {
    type_name: Option<Literal>,
    role: Option<Literal>,
    call_id: Option<Literal>,
    id: Option<Literal>,
    name: Option<Literal>,
    arguments: Option<Literal>,
    content: Value,
    output: Value,
    /// Characters of the encrypted text.
    encrypted_chars: Option<u32>,
}

/// A value that holds text in one of its forms.
#[derive(Debug, Default)]
struct Value {
    content: Content,
    /// Whether the value, or an element of its array, has a type that longhaul does not read.
    is_odd: bool,
    /// The parts of an array.
    parts: Range<usize>,
    /// Texts of the chunks of a shell's output, in the order of the body.
    chunk_texts: Vec<Literal>,
}

impl RequestReader<'_> {
    /// Reads an item, or skips all cached items with one look-up.
    pub(super) fn item(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        if self.skip_cached(scanner)? {
            return Ok(());
        }
        let ahead = scanner.remaining();
        let mut seen = SeenKeys::default();
        let mut draft = ItemDraft::default();
        let first_part = self.pieces.parts.len();
        let span = scanner.object(|scanner, key| match seen.next(scanner, key)? {
            Some(key) => self.item_member(scanner, key, &mut draft),
            None => Ok(scanner.skip()?),
        })?;
        let message = self.build_message(scanner.text(), span, &draft, first_part)?;
        self.push_message(message, ahead);
        Ok(())
    }

    fn item_member(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: ItemKey,
        draft: &mut ItemDraft,
    ) -> Result<(), Bypass> {
        match key {
            ItemKey::Arguments => draft.arguments = read_string(scanner)?,
            ItemKey::CallId => draft.call_id = string_or_null(scanner)?,
            ItemKey::Content => draft.content = self.item_value(scanner)?,
            ItemKey::EncryptedContent => {
                draft.encrypted_chars = string_or_null(scanner)?.map(Literal::chars);
            }
            ItemKey::Id => draft.id = string_or_null(scanner)?,
            ItemKey::Name => draft.name = string_or_null(scanner)?,
            ItemKey::Output => draft.output = self.item_value(scanner)?,
            ItemKey::Role => draft.role = string_or_null(scanner)?,
            ItemKey::Type => draft.type_name = string_or_null(scanner)?,
        }
        Ok(())
    }

    fn item_value(&mut self, scanner: &mut Scanner<'_>) -> Result<Value, Bypass> {
        let mut value = Value::default();
        match scanner.peek() {
            Some(b'"') => value.content = Content::Text(scanner.string()?),
            Some(b'[') => {
                value.parts.start = self.pieces.parts.len();
                value.content = Content::Parts(scanner.array(|scanner| {
                    if scanner.peek() == Some(b'{') {
                        return self.part(
                            scanner,
                            PartKey::CacheBreakpoint,
                            &mut value.chunk_texts,
                        );
                    }
                    value.is_odd = true;
                    Ok(scanner.skip()?)
                })?);
                value.parts.end = self.pieces.parts.len();
            }
            Some(b'n') => scanner.skip()?,
            _ => {
                value.content = Content::Parts(scanner.value()?);
                value.is_odd = true;
            }
        }
        Ok(value)
    }

    /// Builds the message of an item at `span` of `body`. Of the parts after `first_part`, only those
    /// of the message's own content stay.
    fn build_message(
        &mut self,
        body: &str,
        span: Span,
        draft: &ItemDraft,
        first_part: usize,
    ) -> Result<Message, Bypass> {
        let item_type = draft.item_type(body);
        let mut message = Message {
            has_reasoning: item_type == ItemType::Linked(NeighbourLink::Reasoning),
            binding: item_type.binding(),
            parts: first_part..first_part,
            calls: self.pieces.calls.len()..self.pieces.calls.len(),
            ..Message::empty(span, Role::Assistant)
        };
        match item_type {
            ItemType::Message => {
                let role = draft.role.ok_or(Bypass::Shape)?;
                message.role = role_from_name(&role.decode(body), &ROLES);
                message.name = draft.name;
                self.set_content(&mut message, &draft.content)?;
                if message.role.is_user() && self.is_context(body, &message) {
                    message.role = Role::Developer;
                }
            }
            ItemType::Output(shape) => {
                message.role = Role::Tool;
                message.tool_call_id = draft.call_id.or(draft.id);
                match shape {
                    OutputShape::Chunks => self.set_chunks(&mut message, &draft.output)?,
                    OutputShape::Opaque => self.set_opaque(&mut message, body),
                    OutputShape::Screenshot => self.set_screenshot(&mut message, draft, body),
                    OutputShape::Text => self.set_content(&mut message, &draft.output)?,
                }
            }
            ItemType::Call => {
                self.pieces.parts.truncate(first_part);
                self.add_call(&mut message, draft, body);
            }
            ItemType::Linked(NeighbourLink::Reasoning) => {
                self.pieces.parts.truncate(first_part);
                message.tokens = draft.reasoning_tokens(span.slice(body));
            }
            ItemType::AdditionalTools => {
                self.set_opaque(&mut message, body);
                message.role = Role::Developer;
            }
            ItemType::Linked(NeighbourLink::Compaction | NeighbourLink::CompactionOrder) => {
                self.set_opaque(&mut message, body);
                message.role = Role::Other;
                let part = self.pieces.parts.get_mut(message.parts.start);
                if let (Some(part), Some(chars)) = (part, draft.encrypted_chars) {
                    part.tokens = encrypted_tokens(chars);
                }
            }
            ItemType::Linked(NeighbourLink::Tools) => {
                self.set_opaque(&mut message, body);
                if draft.call_id.is_some() {
                    message.role = Role::Tool;
                    message.tool_call_id = draft.call_id;
                }
            }
            ItemType::Linked(
                NeighbourLink::Free | NeighbourLink::Reference | NeighbourLink::Unknown,
            ) => self.set_opaque(&mut message, body),
        }
        let parts = self.pieces.parts_of(&message);
        let other: Tokens = parts.iter().map(|part| part.tokens).sum();
        message.text_tokens = Tokens::estimate_chars(message.content.text_chars(parts));
        message.tokens += MESSAGE_OVERHEAD_TOKENS + message.text_tokens + other;
        Ok(message)
    }

    /// Sets a message's content to `value`. Fails if the value has a type that longhaul does not
    /// read.
    fn set_content(&mut self, message: &mut Message, value: &Value) -> Result<(), Bypass> {
        if value.is_odd {
            return Err(Bypass::Shape);
        }
        let (first, kept, parts) = (message.parts.start, &value.parts, &mut self.pieces.parts);
        parts.truncate(kept.end.max(first));
        parts.drain(first..kept.start.max(first).min(parts.len()));
        message.parts.end = parts.len();
        message.content = value.content;
        Ok(())
    }

    /// Sets a message's content to the texts of a shell's output, each a part of its own.
    fn set_chunks(&mut self, message: &mut Message, value: &Value) -> Result<(), Bypass> {
        self.set_content(message, value)?;
        if let Content::Parts(_) = value.content {
            let parts = &mut self.pieces.parts;
            parts.truncate(message.parts.start);
            parts.extend(value.chunk_texts.iter().copied().map(ContentPart::from_text));
            message.parts.end = parts.len();
        }
        Ok(())
    }

    /// Sets a message's content to the whole item, as one part that is never changed.
    fn set_opaque(&mut self, message: &mut Message, body: &str) {
        self.pieces.parts.truncate(message.parts.start);
        let raw = message.span.slice(body);
        let tokens = part_tokens(PartKind::Other, false, raw);
        self.pieces.parts.push(ContentPart::opaque(message.span, tokens));
        message.parts.end = self.pieces.parts.len();
        message.content = Content::Parts(message.span);
    }

    /// Sets a message's content to its inline screenshot. Any other output is opaque.
    fn set_screenshot(&mut self, message: &mut Message, draft: &ItemDraft, body: &str) {
        self.set_opaque(message, body);
        let inline = draft.output.content.span();
        let inline = inline.filter(|it| it.slice(body).contains("\"data:image/"));
        if let (Some(span), Some(part)) = (inline, self.pieces.parts.last_mut()) {
            let (kind, raw) = (PartKind::Screenshot, span.slice(body));
            *part = ContentPart { kind, tokens: part_tokens(kind, false, raw), span, ..*part };
            message.content = Content::Parts(span);
        }
    }

    /// Adds the call of an item. A call without a name gets the name of its type.
    fn add_call(&mut self, message: &mut Message, draft: &ItemDraft, body: &str) {
        self.pieces.calls.push(ToolCall {
            id: draft.call_id.or(draft.id),
            name: draft.name.or(draft.type_name),
            arguments: draft.arguments,
        });
        message.calls.end = self.pieces.calls.len();
        message.tokens = match draft.arguments {
            Some(arguments) => {
                let name = draft.name.map_or(0, Literal::chars);
                Tokens::estimate_chars(name.saturating_add(arguments.chars()))
            }
            None => part_tokens(PartKind::Other, false, message.span.slice(body)),
        };
    }

    /// Whether Codex, not the user, wrote a user message, to describe the workspace.
    fn is_context(&self, body: &str, message: &Message) -> bool {
        let is_context = |text| is_of_program(text, body, &["<", "# AGENTS.md"]);
        match message.content {
            Content::Absent => false,
            Content::Text(text) => is_context(text),
            Content::Parts(_) => {
                let parts = self.pieces.parts_of(message);
                let is_text = |part: &ContentPart| {
                    part.kind == PartKind::Text && part.text.is_some_and(is_context)
                };
                !parts.is_empty() && parts.iter().all(is_text)
            }
        }
    }
}

impl ItemDraft {
    /// Returns the type of the item. A message and a reference may lack it.
    fn item_type(&self, body: &str) -> ItemType {
        match (self.type_name, self.role) {
            (Some(name), _) => ItemType::from_name(&name.decode(body), self.call_id.is_some()),
            (None, Some(_)) => ItemType::Message,
            (None, None) if self.id.is_some() => ItemType::Linked(NeighbourLink::Reference),
            (None, None) => ItemType::Linked(NeighbourLink::Unknown),
        }
    }

    /// Estimates reasoning, spelt `raw`. Its text counts only if the item carries no encrypted copy.
    fn reasoning_tokens(&self, raw: &str) -> Tokens {
        match self.encrypted_chars {
            Some(chars) => encrypted_tokens(chars),
            None => Tokens::estimate_text(raw),
        }
    }
}

/// Roles of the API's messages.
const ROLES: [Role; 4] = [Role::Assistant, Role::Developer, Role::System, Role::User];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ItemType {
    /// Definitions of further tools, in the words of the operator.
    AdditionalTools,
    /// A call that another item answers.
    Call,
    /// An item with this tie. Without one, a call that the provider itself made and answered; with
    /// [`NeighbourLink::Tools`], definitions of tools that the model has searched for.
    Linked(NeighbourLink),
    /// A message of any role.
    Message,
    /// A result whose output is text, or parts with text.
    Output(OutputShape),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OutputShape {
    /// Chunks, each with the output and the errors of one command.
    Chunks,
    /// Anything else: counted, and never changed.
    Opaque,
    /// An object with an image.
    Screenshot,
    /// A string, or an array of parts.
    Text,
}

impl ItemType {
    /// Returns the reading of the type `name`. An unknown type pairs by the end of its name, as all
    /// types do that exist so far.
    fn from_name(name: &str, has_call_id: bool) -> Self {
        match name {
            "additional_tools" => Self::AdditionalTools,
            "compaction" | "compaction_summary" | "context_compaction" => {
                Self::Linked(NeighbourLink::Compaction)
            }
            "compaction_trigger" => Self::Linked(NeighbourLink::CompactionOrder),
            "computer_call_output" => Self::Output(OutputShape::Screenshot),
            "custom_tool_call_output" | "function_call_output" => Self::Output(OutputShape::Text),
            "item_reference" => Self::Linked(NeighbourLink::Reference),
            "message" => Self::Message,
            "program" if has_call_id => Self::Call,
            "reasoning" => Self::Linked(NeighbourLink::Reasoning),
            "shell_call_output" => Self::Output(OutputShape::Chunks),
            "tool_search_output" => Self::Linked(NeighbourLink::Tools),
            // The schema lists no `call_id` among the properties of this type.
            "local_shell_call" | "mcp_approval_request" => Self::Call,
            "local_shell_call_output" | "mcp_approval_response" => {
                Self::Output(OutputShape::Opaque)
            }
            _ if is_hosted(name) => Self::Linked(NeighbourLink::Free),
            _ if has_call_id && name.ends_with("_call") => Self::Call,
            _ if has_call_id && name.ends_with("_output") => Self::Output(OutputShape::Opaque),
            _ => Self::Linked(NeighbourLink::Unknown),
        }
    }

    fn binding(self) -> NeighbourLink {
        match self {
            Self::AdditionalTools => NeighbourLink::Tools,
            Self::Linked(link) => link,
            Self::Call | Self::Message | Self::Output(_) => NeighbourLink::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_item_types_are_classified_by_suffix() {
        for (name, has_call_id, expect) in [
            ("function_call", true, ItemType::Call),
            ("dream_call", true, ItemType::Call),
            ("dream_call", false, ItemType::Linked(NeighbourLink::Unknown)),
            ("dream_call_output", true, ItemType::Output(OutputShape::Opaque)),
            ("dream_call_output", false, ItemType::Linked(NeighbourLink::Unknown)),
            ("item_reference", false, ItemType::Linked(NeighbourLink::Reference)),
            ("web_search_call", false, ItemType::Linked(NeighbourLink::Free)),
            ("mcp_call", false, ItemType::Linked(NeighbourLink::Free)),
            ("", true, ItemType::Linked(NeighbourLink::Unknown)),
        ] {
            assert_eq!(ItemType::from_name(name, has_call_id), expect, "{name}");
        }
    }
}
