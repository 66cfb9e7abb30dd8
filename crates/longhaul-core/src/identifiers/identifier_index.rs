//! Index of the identifiers of texts, with the statistics that rank them.

use crate::clients;
use crate::collections::CacheHashState;
use crate::conversation::tool_arguments::DecodedCalls;
use crate::identifiers::for_each_argument;
use crate::identifiers::kind::IdentifierKind;
use crate::identifiers::lexer;
use crate::identifiers::likeness::{family, form};
use crate::identifiers::rank::{IdentifierSource, IdentifierStats};
use crate::text::labels::LINE_ENDS;
use crate::user_words::{Piece, pieces};
use std::collections::HashMap;

/// Maximum identifiers to rank, which bounds memory at about 10 MB. The newest come first.
pub(super) const MAX_IDENTIFIERS: usize = 1 << 16;

#[derive(Default)]
pub(super) struct IdentifierIndex {
    entries: HashMap<String, IdentifierStats, CacheHashState>,
    texts: usize,
}

#[derive(Eq, Hash, PartialEq)]
enum Feature<'f> {
    /// The family, among sources at least as strong.
    Family(IdentifierKind, &'f str, IdentifierSource),
    /// The family, and the text in which the identifiers appeared first.
    FamilyInText(IdentifierKind, &'f str, usize),
    /// The form, among sources at least as strong.
    Form(&'f str, IdentifierSource),
}

impl IdentifierIndex {
    /// Collects the identifiers of the messages of `calls`, newest first.
    pub(super) fn from_messages(calls: &DecodedCalls<'_, '_>) -> Self {
        let mut index = Self::default();
        let conversation = calls.conversation;
        let newest_first = calls.messages.clone().rev();
        let messages = newest_first.filter_map(|at| Some((at, conversation.message(at)?)));
        for (at, message) in messages.filter(|(_, message)| !message.role.is_tool_result()) {
            let text = conversation.text(message);
            if message.role.is_user() {
                index.add_user_text(&text, at);
            } else {
                index.add_text(&text, IdentifierSource::Assistant, at);
            }
            for_each_argument(calls, message, |value| {
                index.add_text(value, IdentifierSource::Call, at);
            });
        }
        index
    }

    /// Adds what the user says in a text. Material that the user shows names nothing.
    pub(super) fn add_user_text(&mut self, text: &str, at: usize) {
        for piece in clients::own_words(text).into_iter().flat_map(pieces) {
            match piece {
                Piece::Said(said) => self.add_text(said, IdentifierSource::User, at),
                Piece::Shown(shown) => self.add_text(shown, IdentifierSource::Call, at),
            }
        }
    }

    pub(super) fn add_text(&mut self, text: &str, source: IdentifierSource, at: usize) {
        self.texts += 1;
        lexer::scan(text, |found| {
            if found.kind == IdentifierKind::Number && !found.cued {
                return;
            }
            if let Some(entry) = self.entries.get_mut(found.text) {
                entry.count_sighting(found.cued, source, at);
            } else if self.entries.len() < MAX_IDENTIFIERS {
                let entry = self.entries.entry(found.text.to_owned());
                let entry =
                    entry.or_insert_with(|| IdentifierStats::new(found.kind, source, self.texts));
                entry.count_sighting(found.cued, source, at);
            }
        });
    }

    /// Leaves out the identifiers that appear in `text`, where the agent can still read them.
    pub(super) fn exclude(&mut self, text: &str) {
        lexer::scan(text, |found| {
            if let Some(entry) = self.entries.get_mut(found.text) {
                entry.still_visible = true;
            }
        });
    }

    /// Returns the identifiers that a list may contain with their origins, the highest scores first.
    pub(super) fn best_first(&self) -> Vec<(&str, IdentifierSource)> {
        let entries = self.entries.iter().map(|(text, entry)| {
            let features = (family(text, entry.kind), form(text, entry.kind));
            (text.as_str(), entry, features)
        });
        let entries: Vec<_> = entries.collect();
        let mut counts: HashMap<Feature<'_>, u64, CacheHashState> = HashMap::default();
        for (_, entry, (family, form)) in &entries {
            // A listing in a tool call does not make an identifier from the user less rare.
            for source in IdentifierSource::ALL {
                if source <= entry.source {
                    let family = Feature::Family(entry.kind, family, source);
                    *counts.entry(family).or_default() += 1;
                    let form = Feature::Form(form, source);
                    *counts.entry(form).or_default() += 1;
                }
            }
            let family = Feature::FamilyInText(entry.kind, family, entry.first_text);
            *counts.entry(family).or_default() += 1;
        }
        let count = |feature: &Feature<'_>| counts.get(feature).copied().unwrap_or(1);
        let listed = entries.iter().filter(|(text, entry, _)| {
            !entry.still_visible && entry.has_reason() && !text.contains(LINE_ENDS)
        });
        let scored = listed.map(|(text, entry, (family, form))| {
            let like = [
                Feature::FamilyInText(entry.kind, family, entry.first_text),
                Feature::Family(entry.kind, family, entry.source),
                Feature::Form(form, entry.source),
            ];
            (entry.score(text, like.each_ref().map(count)), *text, entry.origin())
        });
        let mut scored: Vec<(u64, &str, IdentifierSource)> = scored.collect();
        scored.sort_unstable_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
        let ranked = scored.into_iter();
        ranked.map(|(_, text, origin)| (text, origin)).collect()
    }
}

#[cfg(test)]
impl IdentifierIndex {
    /// Number of identifiers, with those that are left out.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
