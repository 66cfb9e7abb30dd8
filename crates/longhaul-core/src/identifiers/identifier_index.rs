//! Index of the identifiers of texts, with the statistics that rank them.

use crate::collections::CacheHashState;
use crate::conversation::tool_arguments::DecodedCalls;
use crate::identifiers::for_each_argument;
use crate::identifiers::kind::IdentifierKind;
use crate::identifiers::lexer;
use crate::identifiers::lexer::{FoundIdentifier, IdentifierSink};
use crate::identifiers::rank::{IdentifierSource, IdentifierStats};
use crate::text::labels::LINE_ENDS;
use std::collections::HashMap;

/// Maximum identifiers to rank, which bounds memory at about 10 MB. The newest come first.
pub(super) const MAX_IDENTIFIERS: usize = 1 << 16;

/// The identifiers collected so far.
#[derive(Default)]
pub(super) struct IdentifierIndex {
    /// Places of the identifiers among the entries.
    places: HashMap<String, usize, CacheHashState>,
    entries: Vec<IdentifierStats>,
}

impl IdentifierIndex {
    /// Collects the identifiers of the messages of `calls`, newest first.
    pub(super) fn from_messages(calls: &DecodedCalls<'_, '_>) -> Self {
        let mut index = Self::default();
        let conversation = calls.conversation;
        let newest_first = calls.messages.clone().rev();
        let messages = newest_first.filter_map(|at| Some((at, conversation.message(at)?)));
        for (at, message) in messages.filter(|(_, message)| !message.role.is_tool_result()) {
            let source = if message.role.is_user() {
                IdentifierSource::User
            } else {
                IdentifierSource::Assistant
            };
            index.add_text(&conversation.text(message), source, at);
            for_each_argument(calls, message, |value| {
                index.add_text(value, IdentifierSource::Call, at);
            });
        }
        index
    }

    /// Adds the identifiers of one text of the message at `at`.
    pub(super) fn add_text(&mut self, text: &str, source: IdentifierSource, at: usize) {
        let first = self.entries.len();
        lexer::scan(
            text,
            &mut Sightings {
                index: self,
                source,
                at,
            },
        );
        let new = self.entries.get_mut(first..).unwrap_or_default();
        count_families_in_text(new);
    }

    /// Leaves out the identifiers that appear in `text`, where the agent can still read them.
    pub(super) fn exclude(&mut self, text: &str) {
        if self.entries.iter().any(IdentifierStats::has_reason) {
            lexer::scan(text, &mut Exclusion(self));
        }
    }

    /// Counts how many identifiers share each family and each form.
    pub(super) fn count_families(&mut self) {
        type Counts = HashMap<u64, [u32; IdentifierSource::COUNT], CacheHashState>;
        let (mut families, mut forms) = (Counts::default(), Counts::default());
        for entry in &self.entries {
            // A listing in a tool result does not make an identifier from the user less rare.
            for counts in [
                families.entry(entry.family).or_default(),
                forms.entry(entry.form).or_default(),
            ] {
                for count in counts.iter_mut().take(entry.source as usize + 1) {
                    *count += 1;
                }
            }
        }
        for entry in &mut self.entries {
            let size = |counts: &Counts, key: u64| {
                let counts = counts.get(&key)?;
                counts.get(entry.source as usize).copied()
            };
            entry.family_size = size(&families, entry.family).unwrap_or(1);
            entry.form_size = size(&forms, entry.form).unwrap_or(1);
        }
    }

    /// Returns the identifiers that a list may contain with their origins, the highest scores first.
    pub(super) fn best_first(&self) -> Vec<(&str, IdentifierSource)> {
        let all = self.places.iter();
        let all = all.filter_map(|(text, &at)| Some((text.as_str(), self.entries.get(at)?)));
        let listed = all.filter(|(text, entry)| {
            !entry.still_visible && entry.has_reason() && !text.contains(LINE_ENDS)
        });
        let scored = listed.map(|(text, entry)| (entry.score(text.len()), text, entry.origin()));
        let mut scored: Vec<(u64, &str, IdentifierSource)> = scored.collect();
        scored.sort_unstable_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
        scored
            .into_iter()
            .map(|(_, text, origin)| (text, origin))
            .collect()
    }

    /// Number of identifiers, with those that are left out.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn entry_mut(&mut self, word: &str) -> Option<&mut IdentifierStats> {
        self.entries.get_mut(*self.places.get(word)?)
    }

    /// Adds an identifier that is not in the index yet, unless the index is full.
    fn insert(&mut self, word: &str, entry: impl FnOnce() -> IdentifierStats) {
        if self.entries.len() < MAX_IDENTIFIERS {
            self.places.insert(word.to_owned(), self.entries.len());
            self.entries.push(entry());
        }
    }
}

/// Counts how many identifiers of each family are new in one text.
fn count_families_in_text(new: &mut [IdentifierStats]) {
    if new.len() < 2 {
        return;
    }
    let families = new.iter().map(|entry| entry.family);
    let mut families: Vec<(u64, usize)> = families.zip(0..).collect();
    families.sort_unstable();
    for family in families.chunk_by(|one, other| one.0 == other.0) {
        let count = u32::try_from(family.len()).unwrap_or(u32::MAX);
        for (_, at) in family {
            if let Some(entry) = new.get_mut(*at) {
                entry.family_in_text = count;
            }
        }
    }
}

/// Counts the sightings of identifiers in a text of the message at `at`.
struct Sightings<'i> {
    index: &'i mut IdentifierIndex,
    source: IdentifierSource,
    at: usize,
}

impl IdentifierSink for Sightings<'_> {
    fn receive_known(&mut self, word: &str, cued: bool) -> bool {
        let entry = self.index.entry_mut(word);
        let entry = entry.filter(|entry| is_found_whole(entry));
        entry.is_some_and(|entry| {
            entry.count_sighting(cued, self.source, self.at);
            true
        })
    }

    fn receive(&mut self, identifier: &FoundIdentifier<'_>) {
        let is_bare = identifier.kind == IdentifierKind::Number && !identifier.cued;
        if is_bare {
            return;
        }
        match self.index.entry_mut(identifier.text) {
            Some(entry) => entry.count_sighting(identifier.cued, self.source, self.at),
            None => self.index.insert(identifier.text, || {
                IdentifierStats::new(identifier, self.source, self.at)
            }),
        }
    }
}

/// Leaves out the identifiers of a text.
struct Exclusion<'i>(&'i mut IdentifierIndex);

impl IdentifierSink for Exclusion<'_> {
    fn receive_known(&mut self, word: &str, _: bool) -> bool {
        let entry = self.0.entry_mut(word);
        let entry = entry.filter(|entry| is_found_whole(entry));
        entry.is_some_and(|entry| {
            entry.still_visible = true;
            true
        })
    }

    fn receive(&mut self, identifier: &FoundIdentifier<'_>) {
        if let Some(entry) = self.0.entry_mut(identifier.text) {
            entry.still_visible = true;
        }
    }
}

/// Whether the lexer finds the identifier in every text that consists of it. A setting may have dashes
/// or a key next to its text, and a number needs a cue.
fn is_found_whole(entry: &IdentifierStats) -> bool {
    !matches!(
        entry.kind,
        IdentifierKind::Assignment | IdentifierKind::Number
    )
}
