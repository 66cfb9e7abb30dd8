//! Identity: a chained, normalised hash of each prefix of a conversation.
//!
//! Agents move cache marks, regenerate ids and turn strings into parts between two requests of one
//! conversation; none of that may change who it is. What counts is hashed as it was spelt: role,
//! text, images, names and arguments of calls. Ids count by their place.

use super::FORM_VERSION;
use super::conversation::{Content, Conversation, Message, Part, PartKind, Role};
use super::generations::Spread;
use super::recall::Linked;
use super::scan::{Literal, NotJson, Scanner};

/// How many boundaries are looked up, newest first: a bound on the work for one request.
const LOOKUPS: usize = 512;
/// What lies more boundaries back is kept once more under a newer one: whoever takes back less than
/// the rest finds it still.
const IN_SIGHT: usize = LOOKUPS / 2;

/// The hash of a prefix.
pub(super) type Link = [u8; 32];
/// The hash of what one message says.
type Says = [u8; 32];
/// For a result the id of the call that it answers, and the call's place among those before it: it
/// counts by its place, or else by its id.
type Answered<'a> = Option<(&'a str, Option<usize>)>;

/// Whose conversations these are. One scope never sees another's records.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Scope([u8; 32]);

impl Scope {
    /// The scope of a caller, from a secret and all that tells callers apart.
    pub fn new(secret: &[u8; 32], caller: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        for part in caller {
            hasher.update(&length(part.len()));
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What stands for it where it is shown.
    pub fn tag(self) -> ScopeTag {
        let hash = blake3::keyed_hash(&self.0, b"tag");
        let mut tag = [0; 8];
        tag.iter_mut()
            .zip(hash.as_bytes())
            .for_each(|(to, byte)| *to = *byte);
        ScopeTag(tag)
    }

    /// The key of what is kept for this scope under a name, and not for a conversation.
    pub fn key_of(self, name: &str) -> RecordKey {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&FORM_VERSION.to_le_bytes());
        field(&mut hasher, b'm', name);
        RecordKey {
            scope: self.tag(),
            chain: hasher.finalize().into(),
        }
    }
}

/// What stands for a scope where entries are listed: enough to tell callers apart, and nothing that
/// a key could be made with.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ScopeTag(pub [u8; 8]);

/// The identity of one prefix of one caller's conversation.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RecordKey {
    scope: ScopeTag,
    chain: Link,
}

impl RecordKey {
    /// How many bytes it is kept as.
    pub const BYTES: usize = 40;

    /// The tag of the scope that it belongs to.
    pub fn scope(self) -> ScopeTag {
        self.scope
    }

    /// The bytes that it is kept as: those of its scope's tag come first.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (scope, chain) = bytes.split_at_mut(size_of::<ScopeTag>());
        scope.copy_from_slice(&self.scope.0);
        chain.copy_from_slice(&self.chain);
        bytes
    }

    /// The key that was kept as `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (scope, chain) = bytes.split_at_checked(size_of::<ScopeTag>())?;
        Some(Self {
            scope: ScopeTag(scope.try_into().ok()?),
            chain: chain.try_into().ok()?,
        })
    }
}

impl Spread for RecordKey {
    fn bits(&self) -> usize {
        let [bits, ..] = self.chain;
        usize::from(bits)
    }
}

/// The keys of a conversation's prefixes, at its boundaries.
#[derive(Clone, Debug)]
pub struct Chains {
    /// The model that is asked.
    model: String,
    /// How many leading messages are left out.
    head: usize,
    /// Where the newest unit begins.
    newest_unit: usize,
    /// Where the newest run of user and system messages begins, or else the end.
    newest_words: usize,
    /// Where the first message ends that the model said, or else the leading messages.
    answered: usize,
    /// Prefix lengths with their keys, ascending.
    keys: Vec<(usize, RecordKey)>,
}

impl Chains {
    /// Hashes a conversation. The leading system and developer messages are left out: dates and
    /// working directories change in them.
    pub fn of(conversation: &Conversation<'_>, scope: Scope) -> Self {
        let start = blake3::keyed_hash(&scope.0, &FORM_VERSION.to_le_bytes());
        let mut link: Link = start.into();
        let tag = scope.tag();
        let head = conversation.head();
        let mut boundaries = conversation.boundaries().iter().copied().peekable();
        let mut batches = conversation.batches().iter().peekable();
        let mut keys = Vec::with_capacity(conversation.boundaries().len());
        for (at, message) in conversation.messages().iter().enumerate().skip(head) {
            while batches.next_if(|batch| batch.results.end <= at).is_some() {}
            let batch = batches.peek().filter(|batch| batch.results.contains(&at));
            let answered = message
                .answers
                .zip(batch)
                .map(|(id, batch)| (id.raw(conversation.body()), batch.place_of_call(at)));
            link = next(conversation, message, &link, answered);
            while boundaries.next_if(|&boundary| boundary <= at).is_some() {}
            if boundaries.peek() == Some(&(at + 1)) {
                let key = RecordKey {
                    scope: tag,
                    chain: link,
                };
                keys.push((at + 1, key));
            }
        }
        let end = conversation.without_beginning(conversation.messages().len());
        let mut before = conversation.messages().iter().take(end);
        let is_work = |it: &Message| !it.role.is_user() && !it.role.instructs();
        let worked = before.clone().rposition(is_work);
        let answered = before.position(is_work);
        Self {
            model: conversation.model().into_owned(),
            head,
            newest_words: worked.map_or(head, |at| at + 1),
            newest_unit: conversation.newest_unit(conversation.messages().len()),
            answered: answered.map_or(head, |at| at + 1),
            keys,
        }
    }

    /// The model that is asked: a record of another's is not in use for it.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// How many leading messages are left out of the keys, and counted in the prefixes' lengths.
    pub fn head(&self) -> usize {
        self.head
    }

    /// Where the newest unit begins, which is never summarised.
    pub(super) fn newest_unit(&self) -> usize {
        self.newest_unit
    }

    /// The prefixes to look up, newest first, at most so many.
    pub fn newest_first(&self) -> impl Iterator<Item = (usize, RecordKey)> + '_ {
        self.keys.iter().rev().take(LOOKUPS).copied()
    }

    /// The key of the prefix of so many messages, if it ends at a boundary.
    pub fn key_at(&self, messages: usize) -> Option<RecordKey> {
        let at = self
            .keys
            .binary_search_by_key(&messages, |(end, _)| *end)
            .ok()?;
        self.keys.get(at).map(|(_, key)| *key)
    }

    /// The shortest prefix of at least so many messages: its length and its key.
    pub fn reaching(&self, messages: usize) -> Option<(usize, RecordKey)> {
        let at = self.keys.partition_point(|(end, _)| *end < messages);
        self.keys.get(at).copied()
    }

    /// The key of the longest prefix that lasts, where that of so many messages lies too far behind it
    /// to be found for long.
    pub fn nearer_than(&self, messages: usize) -> Option<RecordKey> {
        let behind = self.keys.partition_point(|(end, _)| *end <= messages);
        let (at, lasting) = self.lasting()?;
        (self.keys.len() - behind > IN_SIGHT && at > messages).then_some(lasting)
    }

    /// The key of the shortest prefix there is: what all of one conversation share.
    pub fn oldest(&self) -> Option<RecordKey> {
        self.keys.first().map(|(_, key)| *key)
    }

    /// The key of the shortest prefix with a reply in it, or else of the shortest there is: it tells
    /// conversations apart that begin with the same request, and is that of one as it grows.
    pub fn begun(&self) -> Option<RecordKey> {
        let (_, key) = self.reaching(self.answered).or_else(|| self.newest())?;
        Some(key)
    }

    /// The key of a longer prefix than that of so many messages, one that lasts if there is one.
    pub fn behind(&self, messages: usize) -> Option<RecordKey> {
        let mut longer = self.lasting().into_iter().chain(self.newest());
        longer.find_map(|(end, key)| (end > messages).then_some(key))
    }

    /// The longest prefix that later requests will have too, with its length. What stands for one
    /// request alone, as some clients' reminders do, is in the newest messages of the user or the
    /// system: that is the one before them, or the longest where there is none.
    pub fn lasting(&self) -> Option<(usize, RecordKey)> {
        let behind = self
            .keys
            .partition_point(|(end, _)| *end <= self.newest_words);
        let before = behind.checked_sub(1).and_then(|at| self.keys.get(at));
        before.copied().or_else(|| self.newest())
    }

    /// The key of the longest prefix there is, with its length.
    pub fn newest(&self) -> Option<(usize, RecordKey)> {
        self.keys.last().copied()
    }
}

fn length(bytes: usize) -> [u8; 8] {
    (bytes as u64).to_le_bytes()
}

/// Each field goes in with a tag and its length, so that no two messages run into each other.
fn field(hasher: &mut blake3::Hasher, tag: u8, bytes: &str) {
    hasher.update(&[tag]);
    hasher.update(&length(bytes.len()));
    hasher.update(bytes.as_bytes());
}

/// The link behind a message, from its notes if it was met behind the same one.
fn next(
    conversation: &Conversation<'_>,
    message: &Message,
    before: &Link,
    answered: Answered<'_>,
) -> Link {
    let answers = answered.and_then(|(_, call)| call);
    let notes = message.notes();
    let noted = notes.and_then(|notes| notes.linked.get());
    if let Some(noted) = noted.filter(|it| it.before == *before && it.answers == answers) {
        return noted.behind;
    }
    let behind = link(before, hash_of(conversation, message), answered);
    if let Some(notes) = notes {
        let before = *before;
        notes.linked.get_or_init(|| Linked {
            before,
            answers,
            behind,
        });
    }
    behind
}

/// What came before a message, what it says, and for a result which call it answers.
fn link(before: &Link, says: Says, answered: Answered<'_>) -> Link {
    let mut block = [0; 41];
    let (first, place) = block.split_at_mut(says.len());
    first.copy_from_slice(&says);
    match answered {
        None => blake3::keyed_hash(before, &says).into(),
        Some((_, Some(call))) => {
            if let Some((tag, number)) = place.split_first_mut() {
                *tag = b'o';
                number.copy_from_slice(&length(call));
            }
            blake3::keyed_hash(before, &block).into()
        }
        Some((id, None)) => {
            let mut hasher = blake3::Hasher::new_keyed(before);
            hasher.update(&says);
            field(&mut hasher, b'i', id);
            hasher.finalize().into()
        }
    }
}

/// What a message says, wherever it stands.
fn hash_of(conversation: &Conversation<'_>, message: &Message) -> Says {
    let mut hasher = blake3::Hasher::new();
    hash_message(&mut hasher, conversation, message);
    hasher.finalize().into()
}

fn hash_message(hasher: &mut blake3::Hasher, conversation: &Conversation<'_>, message: &Message) {
    let body = conversation.body();
    hasher.update(&[role_tag(message.role)]);
    match message.content {
        Content::Absent | Content::Null => {}
        Content::Text(text) if text.chars() == 0 => {}
        Content::Text(text) => field(hasher, b't', text.raw(body)),
        Content::Parts(_) => {
            for part in conversation.parts(message) {
                hash_part(hasher, body, part);
            }
        }
    }
    if let Some(name) = message.name {
        field(hasher, b'n', name.raw(body));
    }
    for call in conversation.calls(message) {
        let raw = |literal: Option<Literal>| literal.map_or("", |literal| literal.raw(body));
        field(hasher, b'c', raw(call.name));
        field(hasher, b'a', raw(call.arguments));
    }
}

fn hash_part(hasher: &mut blake3::Hasher, body: &str, part: &Part) {
    match (part.kind, part.text) {
        (PartKind::Text, Some(text)) if text.chars() == 0 => {}
        (PartKind::Text, Some(text)) => field(hasher, b't', text.raw(body)),
        (
            PartKind::Audio
            | PartKind::File
            | PartKind::Image
            | PartKind::Other
            | PartKind::Text
            | PartKind::Video,
            _,
        ) => {
            let mut members = members(part.span.slice(body));
            members.sort_unstable();
            for (key, value) in members {
                field(hasher, b'k', key);
                field(hasher, b'v', value);
            }
        }
    }
}

/// The keys and values of an object but for its cache mark, which agents move.
fn members(object: &str) -> Vec<(&str, &str)> {
    let mut members = Vec::new();
    let read = Scanner::new(object).object(|scanner, key| {
        let value = scanner.value()?;
        if key.decode(object) != "cache_control" {
            members.push((key.raw(object), value.slice(object)));
        }
        Ok::<(), NotJson>(())
    });
    debug_assert!(read.is_ok(), "a part was read as an object before");
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
