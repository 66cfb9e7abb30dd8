//! Scores for identifiers: how specific and rare they are, and who has named them.

use crate::identifiers::kind;
use crate::identifiers::kind::IdentifierKind;
use crate::identifiers::lexer::FoundIdentifier;

/// Origin of the text that contains an identifier, from the weakest signal to the strongest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum IdentifierSource {
    /// The arguments of a tool call.
    Call,
    /// The text of an assistant message.
    Assistant,
    /// The text of a user message.
    User,
}

impl IdentifierSource {
    /// Number of sources.
    pub(super) const COUNT: usize = 3;
}

/// Statistics of one identifier.
#[derive(Clone, Debug)]
pub(super) struct IdentifierStats {
    pub(super) kind: IdentifierKind,
    /// Key of the family of similar identifiers.
    pub(super) family: u64,
    /// Number of characters that cannot be guessed.
    pub(super) unguessable_chars: usize,
    /// The strongest source seen.
    pub(super) source: IdentifierSource,
    /// Whether a cue word introduces the identifier anywhere.
    pub(super) cued: bool,
    /// Number of messages that contain the identifier; a message's text and its calls count
    /// separately.
    pub(super) messages: u32,
    /// The last text counted: message index and source.
    pub(super) last_seen: (usize, IdentifierSource),
    /// Number of identifiers of the family that first appeared in the same text.
    pub(super) family_in_text: u32,
    /// Number of identifiers of the family whose source is at least as strong.
    pub(super) family_size: u32,
    /// Key of the form: the characters by class, without runs.
    pub(super) form: u64,
    /// Number of identifiers of the form whose source is at least as strong.
    pub(super) form_size: u32,
    /// Whether the agent can still read the identifier elsewhere.
    pub(super) still_visible: bool,
}

/// The value 1 in the fixed-point format of scores. Scores determine forwarded bytes, and
/// floating-point logarithms differ between machines.
const ONE: u64 = 1 << 20;

/// Length that is added to that of each identifier in the scores of distinctive ones.
const DISTINCTIVE_LENGTH: u64 = 24;
// Only the ratios of the weights within a score matter.
impl IdentifierStats {
    /// Returns the source by which an index groups identifiers.
    pub(super) fn origin(&self) -> IdentifierSource {
        match self.source {
            IdentifierSource::User => IdentifierSource::User,
            IdentifierSource::Assistant | IdentifierSource::Call => IdentifierSource::Assistant,
        }
    }

    /// Counts one sighting of an identifier, in the text `at` of `source`.
    pub(super) fn new(word: &FoundIdentifier<'_>, source: IdentifierSource, at: usize) -> Self {
        let family = kind::family_key(word.text, word.kind);
        let form = match word.kind {
            // Nothing but their form makes names similar.
            IdentifierKind::Number => family,
            IdentifierKind::Assignment
            | IdentifierKind::Code
            | IdentifierKind::Hash
            | IdentifierKind::Location => kind::form_key(word.text, word.kind),
        };
        Self {
            kind: word.kind,
            family,
            unguessable_chars: kind::unguessable_chars(word.text, word.kind),
            source,
            cued: word.cued,
            messages: 1,
            last_seen: (at, source),
            family_in_text: 1,
            family_size: 1,
            form,
            form_size: 1,
            still_visible: false,
        }
    }

    /// Counts another sighting, in the text `at` of `source`.
    pub(super) fn count_sighting(&mut self, cued: bool, source: IdentifierSource, at: usize) {
        self.cued |= cued;
        if self.last_seen != (at, source) {
            self.last_seen = (at, source);
            self.messages = self.messages.saturating_add(1);
        }
        self.source = self.source.max(source);
    }

    /// Whether the identifier says by itself what it is: an address, or a digest. A code or a value does so
    /// only where someone has named it in words. Paths stand in the steps, and names in the code.
    pub(super) fn has_reason(&self) -> bool {
        let is_named = self.source > IdentifierSource::Call;
        match self.kind {
            IdentifierKind::Hash | IdentifierKind::Location => true,
            IdentifierKind::Assignment | IdentifierKind::Code => is_named,
            IdentifierKind::Number => is_named && self.cued,
        }
    }

    /// Scores how distinctive the identifier is: specific, stated by a speaker, and unlike the others of
    /// its history. Recency does not count, because a fact that was stated once stays valid.
    pub(super) fn score(&self, length: usize) -> u64 {
        let cue = if self.cued { 3 } else { 2 };
        let rare = if self.messages <= 3 { 4 } else { 2 };
        let crowd = u64::from(self.family_in_text.saturating_sub(1));
        let kin = u64::from(self.family_size.isqrt());
        let alike = u64::from(self.form_size);
        ONE * self.weight() * cue * rare * 16
            / (4 + crowd)
            / (2 + kin)
            / (1 + alike)
            / (DISTINCTIVE_LENGTH + length as u64)
    }

    /// Returns the weight by kind, source and specific characters.
    fn weight(&self) -> u64 {
        let kind = match self.kind {
            IdentifierKind::Assignment | IdentifierKind::Code | IdentifierKind::Location => 20,
            IdentifierKind::Hash => 10,
            IdentifierKind::Number => 8,
        };
        let source = match self.source {
            IdentifierSource::Call => 2,
            IdentifierSource::Assistant => 6,
            IdentifierSource::User => 10,
        };
        let specific = match (self.kind, self.unguessable_chars) {
            (IdentifierKind::Location, _) | (_, 4..) => 12,
            (_, 3) => 10,
            (_, 2) => 8,
            (_, 1) => 4,
            (_, 0) => 2,
        };
        kind * source * specific
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A code with four digits that the model wrote once.
    fn code() -> IdentifierStats {
        IdentifierStats {
            kind: IdentifierKind::Code,
            family: 0,
            unguessable_chars: 4,
            source: IdentifierSource::Assistant,
            cued: false,
            messages: 1,
            last_seen: (0, IdentifierSource::Assistant),
            family_in_text: 1,
            family_size: 1,
            form: 0,
            form_size: 1,
            still_visible: false,
        }
    }

    /// Asserts that each entry is more distinctive than the next, all at the same length.
    fn check_order(entries: &[IdentifierStats]) {
        for pair in entries.windows(2) {
            let [one, other] = pair else { unreachable!() };
            let scores = (one.score(10), other.score(10));
            assert!(scores.0 > scores.1, "{one:?} {other:?} {scores:?}");
        }
    }

    #[test]
    fn stronger_sources_and_cues_score_higher() {
        let of = |source| IdentifierStats { source, ..code() };
        check_order(&[
            of(IdentifierSource::User),
            of(IdentifierSource::Assistant),
            of(IdentifierSource::Call),
        ]);
        check_order(&[
            IdentifierStats {
                cued: true,
                ..code()
            },
            code(),
        ]);
    }

    #[test]
    fn rare_and_specific_identifiers_score_higher() {
        let met = |messages| IdentifierStats { messages, ..code() };
        check_order(&[met(3), met(4)]);
        let of = |figures| IdentifierStats {
            unguessable_chars: figures,
            ..code()
        };
        check_order(&[of(4), of(3), of(2), of(1), of(0)]);
        assert_eq!(of(4).score(10), of(9).score(10));
        // A location does not become more specific with digits.
        let reached = |figures| IdentifierStats {
            kind: IdentifierKind::Location,
            ..of(figures)
        };
        assert_eq!(reached(0).score(10), reached(9).score(10));
    }

    #[test]
    fn identifiers_with_few_similar_ones_score_higher() {
        let among = |crowd| IdentifierStats {
            family_in_text: crowd,
            ..code()
        };
        check_order(&[among(1), among(2), among(40)]);
        let kin = |kin| IdentifierStats {
            family_size: kin,
            ..code()
        };
        check_order(&[kin(1), kin(4), kin(400)]);
    }

    #[test]
    fn identifiers_of_a_rare_form_score_higher() {
        let form = |form_size| IdentifierStats {
            form_size,
            ..code()
        };
        check_order(&[form(1), form(2), form(300)]);
    }

    #[test]
    fn an_identifier_needs_a_reason_to_be_listed() {
        use IdentifierKind as Kind;
        let listed = |kind, source, cued| {
            let entry = IdentifierStats {
                kind,
                source,
                cued,
                ..code()
            };
            entry.has_reason()
        };
        let check = |kind, named: bool, cued: bool, in_call: bool| {
            for source in [IdentifierSource::Assistant, IdentifierSource::User] {
                assert_eq!(listed(kind, source, false), named, "{kind:?}");
                assert_eq!(listed(kind, source, true), cued, "{kind:?}");
            }
            for is_cued in [false, true] {
                let source = IdentifierSource::Call;
                assert_eq!(listed(kind, source, is_cued), in_call, "{kind:?}");
            }
        };
        check(Kind::Hash, true, true, true);
        check(Kind::Location, true, true, true);
        check(Kind::Assignment, true, true, false);
        check(Kind::Code, true, true, false);
        check(Kind::Number, false, true, false);
    }

    /// Scores determine forwarded bytes, so the expected values are calculated independently.
    #[test]
    fn scores_match_independently_computed_values() {
        let cued = IdentifierStats {
            cued: true,
            family_in_text: 3,
            family_size: 9,
            ..code()
        };
        let numerator = ONE * (20 * 6 * 12) * (3 * 4) * 16;
        assert_eq!(cued.score(8), numerator / 6 / 5 / 2 / 32);
    }
}
