//! Recall: links from the replacement text to the replaced history.
//!
//! A link is a line at the end of a placeholder, of a clipped result or of a segment. The line names an
//! ID, and the ID is a capability: a holder of the ID can read the original while the store keeps it.

use crate::text::wording;
use crate::units::recall_id::{RecallForm, RecallId};
use crate::units::scope::{RecordKey, Scope, ScopeTag};
use crate::units::tokens::Tokens;
use std::fmt;
use std::sync::Arc;

/// Kind of an original. Part of its ID, so that originals of two kinds never share one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OriginalKind {
    /// A tool result.
    Result = 1,
    /// The history that a segment replaces.
    Segment = 2,
    /// A unit of the history.
    Unit = 3,
    /// The list of all units.
    Outline = 4,
}

/// Everything that determines the links of one conversation: its key, the form of the lines, and the
/// hashes of its prefixes. The same on every replica that shares the scope secret.
#[derive(Clone)]
pub struct RecallLink {
    key: [u8; 32],
    scope: ScopeTag,
    form: RecallForm,
    /// Keys of the prefixes that end at a boundary, by their lengths, ascending.
    prefixes: Arc<[(usize, RecordKey)]>,
    /// A line of the same length as every line of this link.
    pub(crate) sample: String,
}

impl RecallLink {
    /// Creates the link of the conversation with the key `conversation` and these `prefixes`.
    pub fn new(
        scope: Scope,
        conversation: RecordKey,
        prefixes: Arc<[(usize, RecordKey)]>,
        form: RecallForm,
    ) -> Self {
        // An ID of nothing, for its length.
        let id = RecallId::from_bytes([0; RecallId::BYTES]);
        let sample = wording::recall_line(&form, &id.to_string());
        Self { key: link_key(scope, conversation), scope: scope.tag(), form, prefixes, sample }
    }

    /// Returns the line that names `id`.
    pub fn line(&self, id: RecallId) -> String {
        wording::recall_line(&self.form, &id.to_string())
    }

    /// Returns the plain estimate of a line, with the line end before it.
    pub fn line_tokens(&self) -> Tokens {
        Tokens::estimate_text(&self.sample) + Tokens::new(1)
    }

    /// Returns the ID of a tool result whose text has the hash `content`.
    pub fn result_id(&self, content: &[u8; 32]) -> RecallId {
        self.id(OriginalKind::Result, &[content])
    }

    /// Returns the ID of the history from message `from` up to `to`. `None` if the conversation has no
    /// boundary at `to`.
    pub fn segment_id(&self, from: usize, to: usize) -> Option<RecallId> {
        let until = self.prefix(to)?.to_bytes();
        // Nothing precedes a segment that begins with the conversation.
        let before = self.prefix(from).map(RecordKey::to_bytes);
        let before = before.unwrap_or([0; RecordKey::BYTES]);
        Some(self.id(OriginalKind::Segment, &[&before, &until]))
    }

    pub(crate) fn unit_id(&self, text: &str) -> RecallId {
        self.id(OriginalKind::Unit, &[text.as_bytes()])
    }

    /// Returns the ID of the conversation's outline.
    pub fn outline_id(&self) -> RecallId {
        self.id(OriginalKind::Outline, &[])
    }

    /// Returns the ID of the outline of the conversation with the key `conversation`.
    pub fn outline_of(scope: Scope, conversation: RecordKey) -> RecallId {
        let key = link_key(scope, conversation);
        keyed_id(&key, scope.tag(), OriginalKind::Outline, &[])
    }

    fn prefix(&self, messages: usize) -> Option<RecordKey> {
        let found = self.prefixes.binary_search_by_key(&messages, |(end, _)| *end);
        self.prefixes.get(found.ok()?).map(|(_, key)| *key)
    }

    fn id(&self, kind: OriginalKind, content: &[&[u8]]) -> RecallId {
        keyed_id(&self.key, self.scope, kind, content)
    }
}

/// Returns the key of a conversation's IDs.
fn link_key(scope: Scope, conversation: RecordKey) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(scope.bytes());
    hasher.update(b"recall");
    hasher.update(&conversation.to_bytes());
    hasher.finalize().into()
}

fn keyed_id(key: &[u8; 32], scope: ScopeTag, kind: OriginalKind, content: &[&[u8]]) -> RecallId {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&[kind as u8]);
    for part in content {
        hasher.update(part);
    }
    RecallId::new(scope, hasher.finalize().as_bytes())
}

// The key would let its reader forge IDs.
impl fmt::Debug for RecallLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RecallLink");
        shown.field("form", &self.form).finish_non_exhaustive()
    }
}

impl PartialEq for RecallLink {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.form == other.form
    }
}

impl Eq for RecallLink {}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(secret: u8, conversation: &str) -> RecallLink {
        let scope = Scope::new(&[secret; 32], &[b"caller"]);
        let prefixes = [(1, scope.named_key("one")), (5, scope.named_key("five"))];
        RecallLink::new(scope, scope.named_key(conversation), prefixes.into(), RecallForm::Command)
    }

    #[test]
    fn an_id_depends_on_secret_conversation_kind_and_content() {
        let id = |link: &RecallLink, text: &[u8; 32]| link.result_id(text);
        let own = id(&link(1, "a"), &[0; 32]);
        assert_eq!(own, id(&link(1, "a"), &[0; 32]), "on another replica");
        assert_ne!(own, id(&link(2, "a"), &[0; 32]), "another secret");
        assert_ne!(own, id(&link(1, "b"), &[0; 32]), "another conversation");
        assert_ne!(own, id(&link(1, "a"), &[1; 32]), "another text");
        let text = str::from_utf8(&[0; 32]).unwrap();
        assert_ne!(own, link(1, "a").unit_id(text), "another kind");
    }

    #[test]
    fn a_segment_has_an_id_only_if_it_ends_at_a_boundary() {
        let link = link(1, "a");
        assert_eq!(link.segment_id(1, 4), None);
        let ids = [link.segment_id(0, 5), link.segment_id(1, 5), link.segment_id(0, 1)];
        assert!(ids.iter().all(Option::is_some));
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
    }

    #[test]
    fn every_line_has_the_length_of_the_sample_and_shows_no_key() {
        for form in [
            RecallForm::Command,
            RecallForm::Tool,
            RecallForm::Url("http://127.0.0.1:8484/__longhaul__/recall/".into()),
        ] {
            let link = RecallLink {
                sample: wording::recall_line(&form, &"a".repeat(RecallId::DIGITS)),
                form,
                ..link(1, "a")
            };
            let line = link.line(link.result_id(&[7; 32]));
            assert_eq!(line.len(), link.sample.len());
            assert_eq!(wording::split_recall_line(&format!("x\n{line}")), ("x", Some(&*line)));
            assert!(!format!("{link:?}").contains("key"));
        }
    }
}
