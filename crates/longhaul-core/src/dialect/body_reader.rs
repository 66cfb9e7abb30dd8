//! State of one pass over a request body, and the members that every dialect reads alike.

use crate::conversation::parse_cache::{ParseCache, ParseCursor};
use crate::conversation::tool_schemas::ToolSchemas;
use crate::conversation::{HistoryKeeper, Message, Pieces, RequestParams};
use crate::dialect::Dialect;
use crate::dialect::bypass::Bypass;
use crate::dialect::reasoning_option::read_reasoning_option;
use crate::dialect::request_values::{Key, SeenKeys, expect_start};
use crate::json::scanner::{Literal, Scanner};
use crate::json::span::Span;
use crate::units::scope::Scope;
use crate::units::tokens::Tokens;
use std::sync::Arc;

/// Maximum messages, parts and calls of one body together. Data derived from an empty message takes
/// about 400 bytes, which no memory budget includes. A history of 80 MB has 40,000 pieces.
pub(super) const MAX_PIECES: usize = 262_144;
/// Bytes of a body for each message that a reader makes room for: messages of agents have 600 to 3,000
/// on average. Room that no message takes is never touched.
const BYTES_PER_MESSAGE: usize = 1_024;
/// Messages that a reader makes room for in the shortest body.
const MIN_MESSAGES: usize = 16;

/// Overhead of one message in common chat templates.
pub(super) const MESSAGE_OVERHEAD_TOKENS: Tokens = Tokens::new(4);

/// State of one pass over a body. `Own` is the state that one dialect needs besides.
#[derive(Default)]
pub(super) struct BodyReader<'r, Own> {
    pub(super) params: RequestParams,
    pub(super) pieces: Pieces,
    /// Cursor over the cached messages, if there is a cache.
    pub(super) cursor: Option<ParseCursor<'r>>,
    pub(super) own: Own,
}

impl<'r, Own: Default> BodyReader<'r, Own> {
    /// Reads a body, and takes the messages that `cache` has for its scope from there. `member` reads
    /// the value of a known key. Returns the body as text and the keys in it, too. Fails if `member`
    /// fails, or if the body is not an object of JSON in UTF-8.
    pub(super) fn read<'a, K: Key>(
        dialect: Dialect,
        body: &'a [u8],
        cache: Option<(Scope, &'r ParseCache)>,
        member: impl Fn(&mut Self, &mut Scanner<'_>, Literal, K) -> Result<(), Bypass>,
    ) -> Result<(Self, &'a str, SeenKeys), Bypass> {
        let mut reader = Self {
            cursor: cache.map(|(scope, cache)| cache.cursor(scope, dialect)),
            ..Self::default()
        };
        let room = MIN_MESSAGES + body.len() / BYTES_PER_MESSAGE;
        reader.pieces.messages = Vec::with_capacity(room.min(MAX_PIECES));
        let mut seen = SeenKeys::default();
        let body = simdutf8::basic::from_utf8(body).map_err(|_| Bypass::Malformed)?;
        let mut scanner = Scanner::new(body);
        if scanner.peek() != Some(b'{') {
            scanner.value()?;
            scanner.finish()?;
            return Err(Bypass::Shape);
        }
        scanner.object(|scanner, key| match seen.next(scanner, key)? {
            Some(known) => member(&mut reader, scanner, key, known),
            None => Ok(scanner.skip()?),
        })?;
        scanner.finish()?;
        Ok((reader, body, seen))
    }
}

impl<Own> BodyReader<'_, Own> {
    /// Checks that another message, part or call may be stored.
    pub(super) fn check_piece_limit(&self) -> Result<(), Bypass> {
        if self.pieces.len() < MAX_PIECES { Ok(()) } else { Err(Bypass::TooLarge) }
    }

    /// Checks that an object is at the scanner, and may be stored. Skips all cached messages from there on with
    /// one look-up, and adds them to the pieces. Returns whether there were any.
    pub(super) fn skip_cached(&mut self, scanner: &mut Scanner<'_>) -> Result<bool, Bypass> {
        self.check_piece_limit()?;
        expect_start(scanner, b'{')?;
        let ahead = scanner.remaining();
        let Some(hit) = self.cursor.as_mut().and_then(|it| it.lookup(ahead)) else {
            return Ok(false);
        };
        let span = scanner.advance(hit.len())?;
        hit.append_at(span, &mut self.pieces);
        self.store_page(scanner.text(), span);
        Ok(true)
    }

    /// Adds a message, an object at the start of `ahead`, and stores its parse.
    pub(super) fn push_message(&mut self, message: Message, ahead: &str) {
        let at = self.pieces.messages.len();
        self.pieces.messages.push(message);
        self.store_message(at, ahead);
    }

    /// Stores the parse of the message at `at`, an object at the start of `ahead`.
    pub(super) fn store_message(&mut self, at: usize, ahead: &str) {
        let Pieces { messages, parts, calls, .. } = &mut self.pieces;
        if let (Some(cursor), Some(message)) = (&mut self.cursor, messages.get_mut(at)) {
            let parts = parts.get(message.parts.clone()).unwrap_or_default();
            let calls = calls.get(message.calls.clone()).unwrap_or_default();
            cursor.store(ahead, message, parts, calls);
        }
    }

    /// Stores the newest messages as a page, once enough were cached. The last object is at `span`.
    pub(super) fn store_page(&mut self, text: &str, span: Span) {
        if let Some(cursor) = &mut self.cursor {
            cursor.store_page(text, span.end(), &self.pieces);
        }
    }

    /// Records who keeps the history. A weaker keeper never replaces a stronger one.
    pub(super) fn keep(&mut self, keeper: HistoryKeeper) {
        self.params.history = self.params.history.max(keeper);
    }

    /// Keeps the member under `key`, a reasoning option.
    pub(super) fn keep_reasoning(
        &mut self,
        scanner: &mut Scanner<'_>,
        key: Literal,
    ) -> Result<(), Bypass> {
        let (value, granted) = read_reasoning_option(scanner)?;
        self.params.reasoning_budget = self.params.reasoning_budget.max(granted);
        self.params.thinking.push((key, value));
        Ok(())
    }

    /// Reads the definitions of tools, or skips them if they are cached.
    pub(super) fn read_tools(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Bypass> {
        // Only the end of an array is found from its own bytes.
        let cursor = self.cursor.as_ref();
        let cursor = cursor.filter(|_| scanner.peek() == Some(b'['));
        let ahead = scanner.remaining();
        let known = cursor.and_then(|cursor| cursor.lookup_tools(ahead));
        let schemas = if let Some((bytes, schemas)) = known {
            scanner.advance(bytes)?;
            schemas
        } else {
            let json = scanner.json()?;
            let schemas = Arc::new(ToolSchemas::measure(json));
            if let Some(cursor) = cursor {
                cursor.store_tools(ahead, json, Arc::clone(&schemas));
            }
            schemas
        };
        self.params.tool_tokens += schemas.tokens;
        self.params.tool_schemas = Some(schemas);
        Ok(())
    }
}
