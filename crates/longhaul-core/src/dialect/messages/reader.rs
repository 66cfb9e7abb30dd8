//! Reader of a request body.

use super::block::Block;
use super::keys::{MessageKey, RequestKey};
use super::server_tools;
use super::turns::WireMessage;
use crate::conversation::parse_cache::{ObjectStart, ParseCache, ParseCursor};
use crate::conversation::{Content, Conversation, HistoryKeeper, Role};
use crate::dialect::Dialect;
use crate::dialect::body_reader::BodyReader;
use crate::dialect::bypass::Bypass;
use crate::dialect::request_values::{
    SeenKeys, expect_start, read_flag, read_model, read_output_limit, role_from_name,
    string_or_null, wrong_type,
};
use crate::json::scanner::{Literal, Scanner, elements, members};
use crate::units::scope::Scope;
use crate::units::tokens::Tokens;
use std::borrow::Cow;

const DIALECT: Dialect = Dialect::Messages;

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
    let BodyReader { mut params, pieces, own, .. } = reader;
    params.is_partial = params.history == HistoryKeeper::Provider;
    let rules = server_tools::cut_rules(body, &pieces, &own.tool_changes);
    Ok(Conversation::new(DIALECT, body, params, pieces, &rules))
}

/// Whether a body has keys that only this dialect has. Chat completions have no `system` outside the
/// messages, no `input_schema` in a tool, and no blocks of calls and results.
pub fn has_own_shape(body: &[u8]) -> bool {
    let body = std::str::from_utf8(body).unwrap_or_default();
    let is_own = |(name, value): (Cow<'_, str>, &str)| match &*name {
        "system" => true,
        "tools" => value.contains("\"input_schema\""),
        "messages" => has_own_blocks(value),
        _ => false,
    };
    members(body).any(is_own) && members(body).any(|(name, _)| name == "messages")
}

/// Whether messages have blocks that only this dialect has.
pub(in crate::dialect) fn has_own_blocks(messages: &str) -> bool {
    let kinds = ["\"tool_use\"", "\"tool_result\"", "\"thinking\""];
    kinds.iter().any(|kind| has_type(messages, kind))
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

pub(super) type RequestReader<'r> = BodyReader<'r, ObjectState>;

/// State of one pass over a body, besides that of every dialect.
#[derive(Default)]
pub(super) struct ObjectState {
    /// Whether the object under way is known to be a user's.
    pub(super) is_in_user_message: bool,
    /// Whether a block of the object under way was not cached.
    pub(super) has_new_block: bool,
    /// First message of each object that changes the tools.
    tool_changes: Vec<usize>,
}

impl RequestReader<'_> {
    fn member(
        &mut self,
        scanner: &mut Scanner<'_>,
        spelt: Literal,
        key: RequestKey,
    ) -> Result<(), Bypass> {
        match key {
            RequestKey::ProviderHistory => {
                if scanner.json()? != "null" {
                    self.keep(HistoryKeeper::Provider);
                }
            }
            RequestKey::ContextManagement => self.keep(history_keeper(scanner.json()?)),
            RequestKey::MaxTokens => {
                self.params.output_limit = read_output_limit(scanner, spelt)?;
            }
            RequestKey::Messages => {
                expect_start(scanner, b'[')?;
                scanner.array(|scanner| self.wire_message(scanner))?;
            }
            RequestKey::Model => self.params.model = read_model(scanner)?,
            RequestKey::OutputConfig => self.params.thinking.push((spelt, scanner.value()?)),
            RequestKey::Routing => self.params.routing.push((spelt, scanner.value()?)),
            RequestKey::Stream => self.params.streaming = read_flag(scanner)?,
            RequestKey::System => {
                let value = scanner.value()?;
                let text = Literal::from_json(scanner.text(), value);
                self.params.tool_tokens += Tokens::estimate_chars(text.chars());
                self.params.instructions = Some(text);
            }
            RequestKey::Thinking => self.keep_reasoning(scanner, spelt)?,
            RequestKey::Tools => self.read_tools(scanner)?,
        }
        Ok(())
    }

    fn wire_message(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        if self.skip_cached(scanner)? {
            return Ok(());
        }
        let ahead = scanner.remaining();
        let start = self.cursor.as_ref().map(|it| it.object_start(ahead));
        self.own.is_in_user_message = false;
        self.own.has_new_block = false;
        let (first_part, first_call) = (self.pieces.parts.len(), self.pieces.calls.len());
        let (first_message, first_mark) =
            (self.pieces.messages.len(), self.pieces.cache_marks.len());
        let containers = self.pieces.containers.len();
        let mut seen = SeenKeys::default();
        let mut role = None;
        let mut content = Content::Absent;
        let mut blocks: Vec<Block> = Vec::new();
        let span = scanner.object(|scanner, key| {
            match seen.next(scanner, key)? {
                Some(MessageKey::Role) => {
                    let name = string_or_null(scanner)?.ok_or(Bypass::Shape)?;
                    let name = name.decode(scanner.text());
                    let read = role_from_name(&name, &[Role::Assistant, Role::System, Role::User]);
                    self.own.is_in_user_message = read.is_user();
                    role = Some(read);
                }
                Some(MessageKey::Content) => content = self.content(scanner, &mut blocks)?,
                None => scanner.skip()?,
            }
            Ok::<(), Bypass>(())
        })?;
        let is_providers = blocks.iter().any(|block| block.is_providers);
        if is_providers {
            self.keep(HistoryKeeper::Provider);
        }
        let changes_tools = blocks.iter().any(|block| block.changes_tools);
        if changes_tools {
            self.own.tool_changes.push(first_message);
        }
        self.push_wire_message(&WireMessage {
            span,
            role: role.ok_or(Bypass::Shape)?,
            content,
            blocks,
            parts: first_part..self.pieces.parts.len(),
            calls: first_call..self.pieces.calls.len(),
        });
        let is_marked = self.pieces.cache_marks.len() > first_mark;
        if is_providers || changes_tools || is_marked {
            self.cursor.as_mut().map(ParseCursor::end_run);
        } else if containers == self.pieces.containers.len() {
            self.store_message(first_message, ahead);
        } else {
            self.extend_run(start, first_message);
            self.store_page(scanner.text(), span);
        }
        Ok(())
    }

    /// Adds the object at `start` to the hits that may become a page, if all its messages, from index
    /// `first` on, were cached.
    fn extend_run(&mut self, start: Option<ObjectStart>, first: usize) {
        let (Some(cursor), Some(start)) = (&mut self.cursor, start) else {
            return;
        };
        let messages = self.pieces.messages.get(first..).unwrap_or_default();
        match messages {
            [head, ..]
                if !self.own.has_new_block && messages.iter().all(|it| it.cached.is_some()) =>
            {
                cursor.extend_run(start, messages.len(), head.role);
            }
            _ => cursor.end_run(),
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

/// Edit that removes only the model's reasoning. Claude Code requests it by default.
const CLEAR_THINKING: &str = "clear_thinking_";
/// Edit that replaces history by a compaction block.
const COMPACT: &str = "compact_";

/// Reads the value of `context_management`. Returns who keeps the history then.
///
/// - Without an edit, or with reasoning removed alone, the client.
/// - With a compaction, the provider.
/// - With any other edit, such as cleared tool results, the provider clears and the client keeps.
///
/// Two parties that clear the same results move each other's trigger and break the prompt cache.
fn history_keeper(context_management: &str) -> HistoryKeeper {
    let edits = members(context_management).filter(|(key, _)| key == "edits");
    let edits = edits.flat_map(|(_, edits)| elements(edits));
    let edits = edits.filter(|edit| edit.starts_with('{'));
    edits.map(keeper_after).max().unwrap_or_default()
}

fn keeper_after(edit: &str) -> HistoryKeeper {
    let types = members(edit).filter(|(key, _)| key == "type");
    let names = types.filter_map(|(_, name)| serde_json::from_str::<String>(name).ok());
    match names.last() {
        Some(name) if name.starts_with(CLEAR_THINKING) => HistoryKeeper::Client,
        Some(name) if name.starts_with(COMPACT) => HistoryKeeper::Provider,
        Some(_) | None => HistoryKeeper::ClearingProvider,
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod context_management_tests {
    use super::*;

    #[test]
    fn context_edits_select_the_history_keeper() {
        use HistoryKeeper::{ClearingProvider, Client, Provider};
        for (value, expect) in [
            ("null", Client),
            ("{}", Client),
            (r#"{"edits":[]}"#, Client),
            (r#"{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}"#, Client),
            (
                r#"{"edits":[{"type":"clear_thinking_20251015"},{"keep":3,"type":"clear_tool_uses_20250919"}]}"#,
                ClearingProvider,
            ),
            (r#"{"edits":[{"type":"unknown"}]}"#, ClearingProvider),
            (r#"{"edits":[{}]}"#, ClearingProvider),
            (
                r#"{"edits":[{"type":"compact_20260112"},{"type":"clear_tool_uses_20250919"}]}"#,
                Provider,
            ),
        ] {
            assert_eq!(history_keeper(value), expect, "{value}");
        }
    }
}
