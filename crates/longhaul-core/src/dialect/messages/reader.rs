//! Reader of a request body.

use super::block::Block;
use super::context_management;
use super::keys::{MessageKey, RequestKey};
use super::server_tools;
use super::turns::WireMessage;
use crate::conversation::containers::Container;
use crate::conversation::parse_cache::{ObjectStart, ParseCache, ParseCursor, ReadPieces};
use crate::conversation::{
    Content, ContentPart, Conversation, CutRules, HistoryKeeper, Message, RequestParams, Role,
    ToolCall,
};
use crate::dialect::Dialect;
use crate::dialect::bypass::Bypass;
use crate::dialect::reasoning_option::read_reasoning_option;
use crate::dialect::request_keys::SeenKeys;
use crate::dialect::request_values::{
    check_piece_limit, expect_start, message_list, read_flag, read_model, read_output_limit,
    read_request, read_tool_tokens, string_or_null, wrong_type,
};
use crate::json::scanner::{Literal, NotJson, Scanner};
use crate::json::span::Span;
use crate::units::scope::Scope;
use crate::units::tokens::Tokens;

/// See [`Dialect::read`].
pub fn read(body: &[u8]) -> Result<Conversation<'_>, Bypass> {
    read_with(body, None)
}

/// Reads a body, and takes the messages that `cache` has for its scope from there.
pub(in crate::dialect) fn read_with<'a>(
    body: &'a [u8],
    cache: Option<(Scope, &ParseCache)>,
) -> Result<Conversation<'a>, Bypass> {
    let mut reader = RequestReader::default();
    reader.store.messages = message_list(body.len());
    reader.store.cursor = cache.map(|(scope, cache)| cache.cursor(scope, Dialect::Messages));
    let mut seen = SeenKeys::default();
    let body = read_request(body, |scanner, key| match seen.next(scanner, key)? {
        Some(known) => reader.request_member(scanner, key, known),
        None => Ok(scanner.skip()?),
    })?;
    if !seen.contains(RequestKey::Messages) {
        return Err(Bypass::Shape);
    }
    let RequestReader { mut params, store } = reader;
    params.is_partial = params.history == HistoryKeeper::Provider;
    let PieceStore {
        messages,
        parts,
        calls,
        containers,
        cache_marks,
        ..
    } = store;
    let rules = CutRules {
        pinned: 0,
        joined: server_tools::joined(body, &messages, &parts),
    };
    let pieces = (messages, parts, calls);
    let conversation =
        Conversation::with_cut_rules(Dialect::Messages, body, params, pieces, &rules);
    Ok(conversation
        .with_containers(containers)
        .with_cache_marks(cache_marks))
}

/// Whether a body has keys that only this dialect has. Chat completions have no `system` outside the
/// messages, no `input_schema` in a tool, and no blocks of calls and results.
pub fn has_own_shape(body: &[u8]) -> bool {
    let Ok(body) = std::str::from_utf8(body) else {
        return false;
    };
    let (mut is_own, mut has_messages) = (false, false);
    let read = Scanner::new(body).object(|scanner, key| {
        let name = key.decode(body);
        let value = scanner.value()?.slice(body);
        has_messages |= name == "messages";
        is_own |= match &*name {
            "system" => true,
            "tools" => value.contains("\"input_schema\""),
            "messages" => {
                let kinds = ["\"tool_use\"", "\"tool_result\"", "\"thinking\""];
                kinds.iter().any(|kind| has_type(value, kind))
            }
            _ => false,
        };
        Ok::<(), NotJson>(())
    });
    read.is_ok() && is_own && has_messages
}

/// Whether a JSON text contains a member `type` with the value `kind`, a string with its quotes. A
/// match inside a text is impossible, because the quotation marks would be escaped.
fn has_type(json: &str, kind: &str) -> bool {
    json.match_indices(kind).any(|(at, _)| {
        let before = json.get(..at).unwrap_or_default().trim_end();
        let key = before.strip_suffix(':').map(str::trim_end);
        key.is_some_and(|key| key.ends_with("\"type\""))
    })
}

/// The pieces of a body that were read so far.
#[derive(Default)]
pub(super) struct PieceStore<'r> {
    pub(super) messages: Vec<Message>,
    pub(super) parts: Vec<ContentPart>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) containers: Vec<Container>,
    pub(super) cache_marks: Vec<(usize, Span)>,
    /// The strongest keeper that a block demands.
    history: HistoryKeeper,
    /// Whether the object under way is known to be a user's.
    pub(super) is_in_user_message: bool,
    /// Whether a block of the object under way was not cached.
    pub(super) has_new_block: bool,
    /// Cursor over cached objects and blocks without cache marks, if there is a cache.
    pub(super) cursor: Option<ParseCursor<'r>>,
}

/// State of one pass over a body.
#[derive(Default)]
struct RequestReader<'r> {
    params: RequestParams,
    store: PieceStore<'r>,
}

impl RequestReader<'_> {
    fn request_member(
        &mut self,
        scanner: &mut Scanner<'_>,
        spelt: Literal,
        key: RequestKey,
    ) -> Result<(), Bypass> {
        match key {
            RequestKey::ProviderHistory => {
                let value = scanner.value()?;
                if value.slice(scanner.text()) != "null" {
                    self.keep(HistoryKeeper::Provider);
                }
            }
            RequestKey::ContextManagement => {
                let keeper = context_management::read(scanner)?;
                self.keep(keeper);
            }
            RequestKey::MaxTokens => {
                self.params.output_limit = read_output_limit(scanner, spelt)?;
            }
            RequestKey::Messages => {
                expect_start(scanner, b'[')?;
                scanner.array(|scanner| self.store.wire_message(scanner))?;
                self.keep(self.store.history);
            }
            RequestKey::Model => self.params.model = read_model(scanner)?,
            RequestKey::OutputConfig => {
                let value = scanner.value()?;
                self.params.thinking.push((spelt, value));
            }
            RequestKey::Routing => {
                let value = scanner.value()?;
                self.params.routing.push((spelt, value));
            }
            RequestKey::Stream => self.params.streaming = read_flag(scanner)?,
            RequestKey::System => {
                let value = scanner.value()?;
                let text = Literal::from_json(scanner.text(), value);
                self.params.tool_tokens += Tokens::estimate_chars(text.chars());
                self.params.instructions = Some(text);
            }
            RequestKey::Thinking => {
                let (value, granted) = read_reasoning_option(scanner)?;
                self.params.reasoning_budget = granted;
                self.params.thinking.push((spelt, value));
            }
            RequestKey::Tools => {
                self.params.tool_tokens += read_tool_tokens(scanner, self.store.cursor.as_ref())?;
            }
        }
        Ok(())
    }

    /// Records who keeps the history. A weaker keeper never replaces a stronger one.
    fn keep(&mut self, keeper: HistoryKeeper) {
        self.params.history = self.params.history.max(keeper);
    }
}

impl PieceStore<'_> {
    /// Checks that another message, part or call may be stored.
    pub(super) fn check_piece_limit(&self) -> Result<(), Bypass> {
        check_piece_limit(self.messages.len() + self.parts.len() + self.calls.len())
    }

    fn wire_message(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        self.check_piece_limit()?;
        expect_start(scanner, b'{')?;
        let ahead = scanner.remaining();
        if let Some(hit) = self.cursor.as_mut().and_then(|it| it.lookup(ahead)) {
            let span = scanner.advance(hit.len())?;
            let containers = hit.containers_at(span, self.messages.len());
            self.containers.extend(containers);
            hit.append_at(span, &mut self.messages, &mut self.parts, &mut self.calls);
            self.store_page(scanner.text(), span);
            return Ok(());
        }
        let start = self.cursor.as_ref().map(|it| it.object_start(ahead));
        self.is_in_user_message = false;
        self.has_new_block = false;
        let (first_part, first_call) = (self.parts.len(), self.calls.len());
        let (first_message, first_mark) = (self.messages.len(), self.cache_marks.len());
        let containers = self.containers.len();
        let mut seen = SeenKeys::default();
        let mut role = None;
        let mut content = Content::Absent;
        let mut blocks: Vec<Block> = Vec::new();
        let span = scanner.object(|scanner, key| {
            match seen.next(scanner, key)? {
                Some(MessageKey::Role) => {
                    let name = string_or_null(scanner)?.ok_or(Bypass::Shape)?;
                    let read = role_from_name(&name.decode(scanner.text()));
                    self.is_in_user_message = read.is_user();
                    role = Some(read);
                }
                Some(MessageKey::Content) => content = self.content(scanner, &mut blocks)?,
                None => scanner.skip()?,
            }
            Ok::<(), Bypass>(())
        })?;
        let is_providers = blocks.iter().any(|block| block.is_providers);
        if is_providers {
            self.history = HistoryKeeper::Provider;
        }
        self.push_wire_message(&WireMessage {
            span,
            role: role.ok_or(Bypass::Shape)?,
            content,
            blocks,
            parts: first_part..self.parts.len(),
            calls: first_call..self.calls.len(),
        });
        let is_marked = self.cache_marks.len() > first_mark;
        if is_providers || is_marked {
            self.cursor.as_mut().map(ParseCursor::end_run);
        } else if containers == self.containers.len() {
            self.store_message(first_message, ahead);
        } else {
            self.extend_run(start, first_message);
            self.store_page(scanner.text(), span);
        }
        Ok(())
    }

    /// Stores the parse of the message at `at`, an object at the start of `ahead`.
    fn store_message(&mut self, at: usize, ahead: &str) {
        if let (Some(cursor), Some(message)) = (&mut self.cursor, self.messages.get_mut(at)) {
            let parts = self.parts.get(message.parts.clone()).unwrap_or_default();
            let calls = self.calls.get(message.calls.clone()).unwrap_or_default();
            cursor.store(ahead, message, parts, calls);
        }
    }

    /// Adds the object at `start` to the hits that may become a page, if all its messages, from index
    /// `first` on, were cached.
    fn extend_run(&mut self, start: Option<ObjectStart>, first: usize) {
        let (Some(cursor), Some(start)) = (&mut self.cursor, start) else {
            return;
        };
        let messages = self.messages.get(first..).unwrap_or_default();
        match messages {
            [head, ..] if !self.has_new_block && messages.iter().all(|it| it.cached.is_some()) => {
                cursor.extend_run(start, messages.len(), head.role);
            }
            _ => cursor.end_run(),
        }
    }

    /// Stores the newest messages as a page, once enough were cached. The last object is at `span`.
    fn store_page(&mut self, text: &str, span: Span) {
        if let Some(cursor) = &mut self.cursor {
            let pieces = ReadPieces {
                messages: &self.messages,
                parts: &self.parts,
                calls: &self.calls,
                containers: &self.containers,
            };
            cursor.store_page(text, span.end(), pieces);
        }
    }

    fn content(
        &mut self,
        scanner: &mut Scanner<'_>,
        blocks: &mut Vec<Block>,
    ) -> Result<Content, Bypass> {
        match scanner.peek() {
            Some(b'"') => Ok(Content::Text(scanner.string()?)),
            Some(b'[') => {
                let span = scanner.array(|scanner| {
                    blocks.push(self.block(scanner)?);
                    Ok::<(), Bypass>(())
                })?;
                Ok(Content::Parts(span))
            }
            _ => Err(wrong_type(scanner)),
        }
    }
}

/// Returns the role with this name.
fn role_from_name(name: &str) -> Role {
    match name {
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "user" => Role::User,
        _ => Role::Other,
    }
}

#[cfg(test)]
mod tests;
