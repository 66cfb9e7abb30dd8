//! Reader of one content block.

use super::keys::BlockKey;
use super::reader::RequestReader;
use crate::conversation::parse_cache::{CacheEntry, ParsedMessage};
use crate::conversation::{Content, ContentPart, Message, PartKind, Role, ToolCall};
use crate::dialect::bypass::Bypass;
use crate::dialect::part_reader::part_tokens;
use crate::dialect::request_values::{
    SeenKeys, expect_start, is_of_program, known_key, read_flag, read_mark, string_or_null,
};
use crate::json::scanner::{Literal, Scanner};
use crate::json::span::Span;
use crate::units::tokens::Tokens;
use std::ops::Range;
use std::sync::Arc;

/// Types of blocks that mean that the provider compacts the history. Bodies with them stay as they are.
const PROVIDER_BLOCKS: [&str; 2] = ["cache_edits", "compaction"];
/// Types of blocks that change the tools from their position on.
const TOOL_CHANGES: [&str; 2] = ["tool_addition", "tool_removal"];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BlockKind {
    /// A call of one of the client's tools.
    Call,
    /// Any other block: a part of its message.
    Part,
    /// Text that the agent's program wrote.
    Reminder,
    /// The result of one of the client's tools.
    Result,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) kind: BlockKind,
    pub(super) span: Span,
    /// The block as a part of its message, or the parts of a result's content.
    pub(super) parts: Range<usize>,
    /// Content of a result.
    pub(super) content: Content,
    /// The id of the call that a result belongs to.
    pub(super) tool_use_id: Option<Literal>,
    pub(super) is_error: bool,
    /// Whether the content of a result has to stay as it is.
    pub(super) is_fixed: bool,
    /// Whether the block makes the body depend on the provider's view of the history.
    pub(super) is_providers: bool,
    /// Whether the block changes the tools. Every later call may need the change.
    pub(super) changes_tools: bool,
    /// Characters of text, or of a call.
    pub(super) chars: u32,
    /// Values of the cache marks on the block and within it, in order.
    pub(super) cache_marks: Vec<Span>,
    /// The message that the block is, if the cache has it.
    pub(super) message: Option<Message>,
}

impl Block {
    /// Returns the cache entry of the block, if it is a message in the cache.
    pub(super) fn cache_entry(&self) -> Option<&CacheEntry> {
        self.message.as_ref()?.cached.as_ref()
    }
}

/// Members of a block, before its type is known.
#[derive(Default)]
struct Draft {
    name_of_type: Option<Literal>,
    id: Option<Literal>,
    name: Option<Literal>,
    input: Option<Span>,
    text: Option<Literal>,
    thinking: Option<Literal>,
    tool_use_id: Option<Literal>,
    content: Option<Content>,
    /// Whether the content holds anything but text, images, documents and search results.
    has_fixed_content: bool,
    is_error: bool,
    has_cache_reference: bool,
    cache_mark: Option<Span>,
    inner_marks: Vec<Span>,
}

impl RequestReader<'_> {
    /// Reads a block, and stores its parts or its call.
    pub(super) fn block(&mut self, scanner: &mut Scanner<'_>) -> Result<Block, Bypass> {
        self.check_piece_limit()?;
        expect_start(scanner, b'{')?;
        let ahead = scanner.remaining();
        // Only the blocks of a user are messages of their own.
        let cursor = self.cursor.as_mut().filter(|_| self.own.is_in_user_message);
        if let Some(parsed) = cursor.and_then(|it| it.lookup_block(ahead)) {
            return self.cached_block(scanner, parsed);
        }
        self.own.has_new_block = true;
        let first_part = self.pieces.parts.len();
        let mut seen = SeenKeys::default();
        let mut draft = Draft::default();
        let span = scanner.object(|scanner, key| match known_key(scanner, key) {
            Some(key) => self.block_member(scanner, key, &mut seen, &mut draft),
            None => Ok(scanner.skip()?),
        })?;
        let mut block = self.finish_block(scanner.text(), span, first_part, draft);
        self.store_block(&mut block, ahead);
        Ok(block)
    }

    fn cached_block(
        &mut self,
        scanner: &mut Scanner<'_>,
        parsed: Arc<ParsedMessage>,
    ) -> Result<Block, Bypass> {
        let span = scanner.advance(parsed.len())?;
        let first_part = self.pieces.parts.len();
        let message = parsed.append_at(span.start_u32(), &mut self.pieces);
        let parts = first_part..self.pieces.parts.len();
        Ok(Block {
            kind: match message.role {
                Role::Tool => BlockKind::Result,
                Role::User => BlockKind::Part,
                Role::Assistant | Role::Developer | Role::Function | Role::Other | Role::System => {
                    BlockKind::Reminder
                }
            },
            span,
            chars: self.text_chars(message.content, &parts),
            parts,
            content: message.content,
            tool_use_id: message.tool_call_id,
            is_error: message.is_error,
            is_fixed: message.is_fixed,
            is_providers: false,
            changes_tools: false,
            cache_marks: Vec::new(),
            message: Some(message),
        })
    }

    /// Stores the parse of a block that is a message of its own.
    fn store_block(&mut self, block: &mut Block, ahead: &str) {
        let is_message = block.kind != BlockKind::Call;
        let is_plain = !block.is_providers && !block.changes_tools;
        let may_store = is_message && is_plain && block.cache_marks.is_empty();
        if !may_store || !self.own.is_in_user_message || self.cursor.is_none() {
            return;
        }
        block.message = self.message_of(std::slice::from_ref(block));
        if let (Some(cursor), Some(message)) = (&mut self.cursor, &mut block.message) {
            let parts = self.pieces.parts.get(message.parts.clone()).unwrap_or_default();
            cursor.store_block(ahead, message, parts);
        }
    }

    fn block_member(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: BlockKey,
        seen: &mut SeenKeys,
        draft: &mut Draft,
    ) -> Result<(), Bypass> {
        let is_string = scanner.peek() == Some(b'"');
        if is_string || !matches!(key, BlockKey::Text | BlockKey::Thinking) {
            seen.insert_once(key)?;
        }
        match key {
            BlockKey::CacheControl => draft.cache_mark = read_mark(scanner)?,
            BlockKey::CacheReference => {
                draft.has_cache_reference = true;
                scanner.skip()?;
            }
            BlockKey::Content => draft.content = self.inner_content(scanner, draft)?,
            BlockKey::Id => draft.id = string_or_null(scanner)?,
            BlockKey::Input => draft.input = Some(scanner.value()?),
            BlockKey::IsError => draft.is_error = read_flag(scanner)?,
            BlockKey::Name => draft.name = string_or_null(scanner)?,
            BlockKey::Text if is_string => draft.text = Some(scanner.string()?),
            BlockKey::Thinking if is_string => draft.thinking = Some(scanner.string()?),
            BlockKey::ToolUseId => draft.tool_use_id = string_or_null(scanner)?,
            BlockKey::Type => draft.name_of_type = string_or_null(scanner)?,
            BlockKey::Text | BlockKey::Thinking => scanner.skip()?,
        }
        Ok(())
    }

    /// Reads the content within a block. Returns `None` for content in no shape of a result.
    fn inner_content(
        &mut self,
        scanner: &mut Scanner<'_>,
        draft: &mut Draft,
    ) -> Result<Option<Content>, Bypass> {
        Ok(match scanner.peek() {
            Some(b'"') => Some(Content::Text(scanner.string()?)),
            Some(b'n') => scanner.skip().map(|()| Some(Content::Absent))?,
            Some(b'[') => {
                let span = scanner.array(|scanner| self.inner_part(scanner, draft))?;
                Some(Content::Parts(span))
            }
            _ => {
                scanner.skip()?;
                None
            }
        })
    }

    fn inner_part(&mut self, scanner: &mut Scanner<'_>, draft: &mut Draft) -> Result<(), Bypass> {
        self.check_piece_limit()?;
        if scanner.peek() != Some(b'{') {
            draft.has_fixed_content = true;
            return Ok(scanner.skip()?);
        }
        let mut seen = SeenKeys::default();
        let (mut name, mut text, mut cache_mark) = (None, None, None);
        let span = scanner.object(|scanner, key| {
            match known_key(scanner, key) {
                Some(key @ BlockKey::Type) => {
                    seen.insert_once(key)?;
                    name = string_or_null(scanner)?;
                }
                Some(key @ BlockKey::Text) if scanner.peek() == Some(b'"') => {
                    seen.insert_once(key)?;
                    text = Some(scanner.string()?);
                }
                Some(key @ BlockKey::CacheControl) => {
                    seen.insert_once(key)?;
                    cache_mark = read_mark(scanner)?;
                }
                _ => scanner.skip()?,
            }
            Ok::<(), Bypass>(())
        })?;
        draft.inner_marks.extend(cache_mark);
        let name = name.map(|name| name.decode(scanner.text()));
        let kind = match name.as_deref() {
            Some("text") => PartKind::Text,
            Some("image") => PartKind::Image,
            Some("document") => PartKind::File,
            Some("search_result") => PartKind::Other,
            _ => {
                draft.has_fixed_content = true;
                PartKind::Other
            }
        };
        self.pieces.parts.push(ContentPart {
            kind,
            span,
            text,
            cache_mark,
            tokens: part_tokens(kind, false, span.slice(scanner.text())),
        });
        Ok(())
    }

    fn finish_block(&mut self, body: &str, span: Span, first_part: usize, draft: Draft) -> Block {
        let name = draft.name_of_type.map(|name| name.decode(body));
        let name = name.as_deref().unwrap_or_default();
        let mut cache_marks = draft.inner_marks;
        cache_marks.extend(draft.cache_mark);
        let mut block = Block {
            kind: BlockKind::Part,
            span,
            parts: first_part..self.pieces.parts.len(),
            content: Content::Absent,
            tool_use_id: draft.tool_use_id,
            is_error: draft.is_error,
            is_fixed: draft.has_fixed_content,
            is_providers: PROVIDER_BLOCKS.contains(&name) || draft.has_cache_reference,
            changes_tools: TOOL_CHANGES.contains(&name),
            chars: 0,
            cache_marks,
            message: None,
        };
        if name == "tool_result" {
            block.kind = BlockKind::Result;
            block.is_fixed |= draft.content.is_none() && self.pieces.parts.len() > first_part;
            block.content = draft.content.unwrap_or(Content::Absent);
            block.chars = self.text_chars(block.content, &block.parts);
            return block;
        }
        // Only results have their content as parts.
        self.pieces.parts.truncate(first_part);
        if name == "tool_use" {
            let input = draft.input.map(|input| Literal::from_json(body, input));
            let chars = |literal: Option<Literal>| literal.map_or(0, Literal::chars);
            block.kind = BlockKind::Call;
            block.chars = chars(draft.name).saturating_add(chars(input));
            self.pieces.calls.push(ToolCall { id: draft.id, name: draft.name, arguments: input });
        } else {
            let kind = part_kind(name);
            let text = draft.text.filter(|_| kind == PartKind::Text);
            // Claude Code adds reminders as blocks next to results and user messages.
            let is_own = |text| is_of_program(text, body, &["<system-reminder>"]);
            if text.is_some_and(is_own) {
                block.kind = BlockKind::Reminder;
            }
            block.chars = text.map_or(0, Literal::chars);
            self.pieces.parts.push(ContentPart {
                kind,
                span,
                text,
                cache_mark: draft.cache_mark,
                tokens: if kind == PartKind::Thinking {
                    // The model does not read a signature as text.
                    Tokens::estimate_chars(draft.thinking.map_or(0, Literal::chars))
                } else {
                    part_tokens(kind, false, span.slice(body))
                },
            });
        }
        block.parts = first_part..self.pieces.parts.len();
        block
    }

    /// Returns the characters of the text of a content with these parts.
    pub(super) fn text_chars(&self, content: Content, parts: &Range<usize>) -> u32 {
        content.text_chars(self.pieces.parts.get(parts.clone()).unwrap_or_default())
    }
}

fn part_kind(name: &str) -> PartKind {
    match name {
        "document" => PartKind::File,
        "image" => PartKind::Image,
        "redacted_thinking" | "thinking" => PartKind::Thinking,
        "text" => PartKind::Text,
        _ => PartKind::Other,
    }
}
