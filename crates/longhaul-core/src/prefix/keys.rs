//! Prefix keys: a chained, normalised hash of each prefix of a conversation.
//!
//! Between two requests of one conversation, agents move cache marks, regenerate ids and turn
//! strings into parts. None of these may change the key. The hash covers role, text, images, names
//! and arguments of calls, all as spelt. An id counts by the position of its call.

use crate::conversation::parse_cache::PrefixHashStep;
use crate::conversation::{Content, ContentPart, Conversation, Message, PartKind, Role};
use crate::dialect::Dialect;
use crate::json::scanner::{Literal, NotJson, Scanner};
use crate::prefix::head_hash::{HeadHash, head_hash};
use crate::recall::RecallLink;
use crate::units::recall_id::RecallId;
use crate::units::scope::{PrefixHash, RecordKey, Scope, hash_field, length_bytes};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum boundaries looked up, newest first. Bounds the work per request.
const MAX_LOOKUPS: usize = 512;
/// Boundaries after which an entry is stored again under a newer prefix. A conversation rewound by
/// fewer than the remaining [`MAX_LOOKUPS`] still finds the entry.
const REKEY_DISTANCE: usize = MAX_LOOKUPS / 2;

/// The hash of one message's content.
type MessageHash = [u8; 32];
/// For a result: the id of the call that it answers, and the index of that call among those before
/// it. The hash covers the index; if the index is `None`, it covers the id.
type AnsweredCall<Id> = Option<(Id, Option<usize>)>;

/// The keys of a conversation's prefixes, at its boundaries.
#[derive(Clone, Debug)]
pub struct PrefixKeys {
    scope: Scope,
    model: String,
    /// Number of leading messages that no record covers.
    head_len: usize,
    newest_unit: usize,
    /// Start of the trailing run of user and system messages; the end if there is none.
    trailing_input_start: usize,
    /// End of the first message from the model or a tool; without one, the end of the leading
    /// messages.
    first_reply_end: usize,
    /// Prefix lengths with their keys, ascending.
    keys: Arc<[(usize, RecordKey)]>,
    /// Hash of the leading messages, if records may depend on them.
    head_hash: Option<HeadHash>,
    /// Hash of the values by which the client's program identifies itself.
    agent_hash: Option<[u8; 32]>,
}

/// Whether a record depends on the leading system and developer messages.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeadDependence {
    /// The record's text depends on them: requests with another head must not find the record.
    Dependent,
    /// Requests share the record whatever their head.
    #[default]
    Independent,
}

impl PrefixKeys {
    /// Hashes a conversation without its leading system and developer messages, whose dates and
    /// working directories change.
    pub fn new(conversation: &Conversation<'_>, scope: Scope) -> Self {
        let form = conversation.dialect().form_version();
        let tenant = conversation.params().path.as_ref().map_or("", |path| &path.tenant);
        let start = [&form.to_le_bytes(), tenant.as_bytes()].concat();
        let start = blake3::keyed_hash(scope.bytes(), &start);
        let mut hash: PrefixHash = start.into();
        let tag = scope.tag();
        let (instructions, head) = (conversation.instructions_len(), conversation.head_len());
        let boundaries = conversation.boundaries().iter().copied();
        let mut boundaries = boundaries.skip_while(|&it| it <= instructions).peekable();
        let mut batches = conversation.batches().iter().peekable();
        let mut keys: Vec<(usize, RecordKey)> = Vec::with_capacity(conversation.boundaries().len());
        for (at, message) in conversation.messages().iter().enumerate().skip(instructions) {
            let answered = message.tool_call_id.and_then(|id| {
                while batches.next_if(|batch| batch.results.end <= at).is_some() {}
                let batch = batches.peek().filter(|batch| batch.results.contains(&at))?;
                Some((id, batch.call_index(at)))
            });
            hash = next_hash(conversation, message, &hash, answered);
            if boundaries.next_if_eq(&(at + 1)).is_some() {
                keys.push((at + 1, RecordKey::new(tag, hash)));
            }
        }
        let end = conversation.without_prefill(conversation.messages().len());
        let mut before = conversation.messages().iter().take(end);
        let is_work = |it: &Message| !it.role.is_user() && !it.role.is_instruction();
        let worked = before.clone().rposition(is_work);
        let answered = before.position(is_work);
        Self {
            scope,
            model: conversation.model().into_owned(),
            head_len: head,
            trailing_input_start: worked.map_or(head, |at| at + 1),
            newest_unit: conversation.newest_unit(conversation.messages().len()),
            first_reply_end: answered.map_or(head, |at| at + 1),
            keys: keys.into(),
            head_hash: None,
            agent_hash: None,
        }
    }

    /// Distinguishes conversations that begin alike by `values` that the client's program states: its session,
    /// and its part in the session. Records do not depend on these.
    #[must_use]
    pub fn of_agent(self, scope: Scope, values: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(scope.bytes());
        for value in values {
            hasher.update(&length_bytes(value.len()));
            hasher.update(value);
        }
        let agent_hash = (!values.is_empty()).then(|| hasher.finalize().into());
        Self { agent_hash, ..self }
    }

    /// Adds the keys of records that depend on the leading messages of `conversation`.
    #[must_use]
    pub fn with_head(self, conversation: &Conversation<'_>, scope: Scope) -> Self {
        Self { head_hash: Some(head_hash(conversation, scope)), ..self }
    }

    /// Returns the key under which a record of the prefix `prefix` is stored. Returns `None` for a
    /// record that depends on the leading messages, if these keys were made without them.
    pub fn record_key(&self, prefix: RecordKey, dependence: HeadDependence) -> Option<RecordKey> {
        match dependence {
            HeadDependence::Dependent => self.head_hash.as_ref().map(|head| prefix.with_head(head)),
            HeadDependence::Independent => Some(prefix),
        }
    }

    /// Returns all keys under which a record of the prefix `prefix` may be stored. The record of
    /// this head comes first.
    pub fn record_keys(&self, prefix: RecordKey) -> impl Iterator<Item = RecordKey> + use<> {
        let own = self.record_key(prefix, HeadDependence::Dependent);
        own.into_iter().chain([prefix])
    }

    /// Returns the requested model. A record of another model does not apply to it.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns all prefix lengths with their keys, ascending.
    pub fn all(&self) -> &Arc<[(usize, RecordKey)]> {
        &self.keys
    }

    /// Returns the number of leading messages that no record covers. Prefix lengths include them.
    pub fn head_len(&self) -> usize {
        self.head_len
    }

    /// Returns the start of the newest unit, which is never replaced.
    pub(crate) fn newest_unit(&self) -> usize {
        self.newest_unit
    }

    /// Returns the prefixes to look up, newest first, up to a fixed number.
    pub fn newest_first(&self) -> impl Iterator<Item = (usize, RecordKey)> + '_ {
        self.keys.iter().rev().take(MAX_LOOKUPS).copied()
    }

    /// Returns the key of the prefix of `messages` messages, if it ends at a boundary.
    pub fn key_at(&self, messages: usize) -> Option<RecordKey> {
        self.last_within(messages).and_then(|(end, key)| (end == messages).then_some(key))
    }

    /// Returns the shortest prefix of at least `messages` messages: its length and its key.
    pub fn first_at_least(&self, messages: usize) -> Option<(usize, RecordKey)> {
        let at = self.keys.partition_point(|(end, _)| *end < messages);
        self.keys.get(at).copied()
    }

    /// Returns the longest prefix before the newest unit, or the stable prefix of the first unit. A unit may still
    /// grow if its items are bound to each other, and its end is no boundary then.
    pub fn shared_prefix(&self) -> Option<(usize, RecordKey)> {
        self.last_within(self.newest_unit).or_else(|| self.stable_prefix())
    }

    /// Returns the key of the stable prefix, if the prefix of `messages` messages is so much
    /// shorter that look-ups will soon miss it.
    pub fn renewal_key(&self, messages: usize) -> Option<RecordKey> {
        let after = self.keys.partition_point(|(end, _)| *end <= messages);
        let (at, key) = self.stable_prefix()?;
        (self.keys.len() - after > REKEY_DISTANCE && at > messages).then_some(key)
    }

    /// Returns the key that identifies the conversation: that of its shortest prefix, which all its
    /// requests share, and of its agent. No record is stored under it.
    pub fn first_key(&self) -> Option<RecordKey> {
        let (_, key) = self.keys.first()?;
        Some(self.agent_hash.as_ref().map_or(*key, |agent| key.with_head(agent)))
    }

    /// Returns the key of the shortest prefix that contains a reply. The key distinguishes
    /// conversations that begin with the same request, and stays the same as a conversation grows.
    /// Without a reply this is the shortest prefix; if no prefix reaches the reply yet, the
    /// longest.
    pub fn conversation_key(&self) -> Option<RecordKey> {
        let (_, key) = self.first_at_least(self.first_reply_end).or_else(|| self.newest())?;
        Some(key)
    }

    /// Returns the keys under which the texts that stay in the conversation are stored: its own, and that of
    /// its first request. Empty if no message identifies the conversation yet.
    pub fn kept_keys(&self) -> Vec<RecordKey> {
        let first = self.keys.first().map(|(_, key)| *key);
        let own = self.conversation_key().into_iter().chain(first);
        let outlines = own.map(|key| RecallLink::outline_of(self.scope, key));
        outlines.map(RecallId::kept_key).collect()
    }

    /// Returns the key of a prefix longer than `messages` messages: the stable prefix if that is
    /// longer, else the longest.
    pub fn longer_than(&self, messages: usize) -> Option<RecordKey> {
        let mut longer = self.stable_prefix().into_iter().chain(self.newest());
        longer.find_map(|(end, key)| (end > messages).then_some(key))
    }

    /// Returns the longest prefix that later requests will share, with its length.
    ///
    /// Some clients end each request with a one-off message, such as a reminder. The stable prefix
    /// therefore ends before the trailing run of user and system messages. If nothing precedes that
    /// run, this is the longest prefix.
    pub fn stable_prefix(&self) -> Option<(usize, RecordKey)> {
        self.last_within(self.trailing_input_start).or_else(|| self.newest())
    }

    /// Returns the longest prefix of at most `messages` messages.
    fn last_within(&self, messages: usize) -> Option<(usize, RecordKey)> {
        let behind = self.keys.partition_point(|(end, _)| *end <= messages);
        self.keys.get(behind.checked_sub(1)?).copied()
    }

    /// Returns the longest prefix: its length and its key.
    pub fn newest(&self) -> Option<(usize, RecordKey)> {
        self.keys.last().copied()
    }
}

/// Returns the prefix hash after a message, from the message's memo if that starts from the same
/// hash.
fn next_hash(
    conversation: &Conversation<'_>,
    message: &Message,
    before: &PrefixHash,
    answered: AnsweredCall<Literal>,
) -> PrefixHash {
    let answers = answered.and_then(|(_, call)| call);
    let notes = message.memo();
    let noted = notes.and_then(|notes| notes.hash_step.get());
    if let Some(noted) = noted.filter(|it| it.before == *before && it.call_index == answers) {
        return noted.after;
    }
    let answered = answered.map(|(id, call)| (id.raw(conversation.body()), call));
    let after = chain_hash(before, message_hash(conversation, message), answered);
    if let Some(notes) = notes {
        let before = *before;
        notes.hash_step.get_or_init(|| PrefixHashStep { before, call_index: answers, after });
    }
    after
}

/// Hashes the prefix before a message, the message's content and, for a result, the call that it
/// answers.
fn chain_hash(before: &PrefixHash, says: MessageHash, answered: AnsweredCall<&str>) -> PrefixHash {
    let mut block = [0; 41];
    let (first, place) = block.split_at_mut(says.len());
    first.copy_from_slice(&says);
    match answered {
        None => blake3::keyed_hash(before, &says).into(),
        Some((_, Some(call))) => {
            if let Some((tag, number)) = place.split_first_mut() {
                *tag = b'o';
                number.copy_from_slice(&length_bytes(call));
            }
            blake3::keyed_hash(before, &block).into()
        }
        Some((id, None)) => {
            let mut hasher = blake3::Hasher::new_keyed(before);
            hasher.update(&says);
            hash_field(&mut hasher, b'i', id);
            hasher.finalize().into()
        }
    }
}

/// Hashes the content of a message, independent of its position.
fn message_hash(conversation: &Conversation<'_>, message: &Message) -> MessageHash {
    let mut hasher = blake3::Hasher::new();
    let body = conversation.body();
    hasher.update(&[role_tag(message.role)]);
    match message.content {
        Content::Absent => {}
        Content::Text(text) if text.chars() == 0 => {}
        Content::Text(text) => hash_field(&mut hasher, b't', text.raw(body)),
        Content::Parts(_) => {
            for part in conversation.parts(message) {
                hash_part(&mut hasher, conversation, part);
            }
        }
    }
    if let Some(name) = message.name {
        hash_field(&mut hasher, b'n', name.raw(body));
    }
    for call in conversation.calls(message) {
        let raw = |literal: Option<Literal>| literal.map_or("", |literal| literal.raw(body));
        hash_field(&mut hasher, b'c', raw(call.name));
        hash_field(&mut hasher, b'a', raw(call.arguments));
    }
    hasher.finalize().into()
}

fn hash_part(hasher: &mut blake3::Hasher, conversation: &Conversation<'_>, part: &ContentPart) {
    let body = conversation.body();
    match (part.kind, part.text) {
        (PartKind::Text, Some(text)) if text.chars() == 0 => {}
        // Agents drop thinking that a provider refuses, here as outside the content.
        (PartKind::Thinking, _) => {}
        (PartKind::Text, Some(text)) => hash_field(hasher, b't', text.raw(body)),
        (
            PartKind::Audio
            | PartKind::File
            | PartKind::Image
            | PartKind::Other
            | PartKind::Screenshot
            | PartKind::Text
            | PartKind::Video,
            _,
        ) => {
            let mut members = members(part.span.slice(body), conversation.dialect());
            members.sort_unstable();
            for (key, value) in members {
                hash_field(hasher, b'k', key);
                hash_field(hasher, b'v', value);
            }
        }
    }
}

/// Returns the keys and values of an object, except its cache mark, which agents move.
fn members(object: &str, dialect: Dialect) -> Vec<(&str, &str)> {
    let mut members = Vec::new();
    let read = Scanner::new(object).object(|scanner, key| {
        let value = scanner.value()?;
        if key.decode(object) != dialect.facts().cache_mark_key {
            members.push((key.raw(object), value.slice(object)));
        }
        Ok::<(), NotJson>(())
    });
    debug_assert!(read.is_ok(), "the reader validated parts as objects");
    members
}

fn role_tag(role: Role) -> u8 {
    match role {
        Role::Assistant => 1,
        Role::Developer | Role::System => 2,
        Role::Function => 3,
        Role::Other => 4,
        Role::Tool => 5,
        Role::User => 6,
    }
}

#[cfg(test)]
mod tests;
