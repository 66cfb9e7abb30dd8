//! Scores for identifiers: how specific and rare they are, and who has named them.

use crate::identifiers::kind::IdentifierKind;
use crate::identifiers::likeness::unguessable_chars;

/// Origin of the text that contains an identifier, from the weakest signal to the strongest.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum IdentifierSource {
    /// The arguments of a tool call.
    Call,
    /// The text of an assistant message.
    Assistant,
    /// The text of a user message.
    User,
}

impl IdentifierSource {
    pub(super) const ALL: [Self; 3] = [Self::Call, Self::Assistant, Self::User];
}

#[derive(Clone, Debug)]
pub(super) struct IdentifierStats {
    pub(super) kind: IdentifierKind,
    /// The strongest source seen.
    pub(super) source: IdentifierSource,
    /// Whether a cue word introduces the identifier anywhere.
    pub(super) cued: bool,
    /// Number of messages that contain the identifier; a message's text and its calls count
    /// separately.
    pub(super) messages: u32,
    /// The last text counted: message index and source.
    pub(super) last_seen: Option<(usize, IdentifierSource)>,
    /// Number of the text in which the identifier appeared first.
    pub(super) first_text: usize,
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

    /// Creates the statistics of an identifier that appeared first in the text with the number `first_text`.
    pub(super) fn new(kind: IdentifierKind, source: IdentifierSource, first_text: usize) -> Self {
        let (cued, messages, last_seen, still_visible) = (false, 0, None, false);
        Self { kind, source, cued, messages, last_seen, first_text, still_visible }
    }

    /// Counts a sighting, in the text `at` of `source`.
    pub(super) fn count_sighting(&mut self, cued: bool, source: IdentifierSource, at: usize) {
        self.cued |= cued;
        if self.last_seen.replace((at, source)) != Some((at, source)) {
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
    ///
    /// The numbers count the identifiers that are alike, with this one: those of its family and first text, of its
    /// family, and of its form. The last two leave out weaker sources. A form weighs little: over many windows, most
    /// tickets have one form, and the odd forms are rarely facts.
    pub(super) fn score(&self, text: &str, [family_in_text, family, form]: [u64; 3]) -> u64 {
        let cue = if self.cued { 3 } else { 2 };
        let rare = if self.messages <= 3 { 4 } else { 2 };
        ONE * self.weight(text) * cue * rare * 16
            / (3 + family_in_text)
            / (2 + family.isqrt())
            / (1 + form.isqrt().isqrt())
            / (DISTINCTIVE_LENGTH + text.len() as u64)
    }

    /// Returns the weight by kind, source and specific characters.
    fn weight(&self, text: &str) -> u64 {
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
        let specific = match (self.kind, unguessable_chars(text, self.kind)) {
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

    /// A code that the model wrote once.
    const CODE: IdentifierStats = IdentifierStats {
        kind: IdentifierKind::Code,
        source: IdentifierSource::Assistant,
        cued: false,
        messages: 1,
        last_seen: None,
        first_text: 0,
        still_visible: false,
    };
    /// An identifier that is like no other.
    const ALONE: [u64; 3] = [1; 3];

    /// Asserts that each score is higher than the next.
    fn check_order(scores: &[u64]) {
        assert!(scores.is_sorted_by(|one, next| one > next), "{scores:?}");
    }

    #[test]
    fn stronger_sources_and_cues_score_higher() {
        let of = |source| IdentifierStats { source, ..CODE }.score("QX-9917", ALONE);
        check_order(&IdentifierSource::ALL.map(of).into_iter().rev().collect::<Vec<_>>());
        let cued = IdentifierStats { cued: true, ..CODE };
        check_order(&[cued, CODE].map(|entry| entry.score("QX-9917", ALONE)));
    }

    #[test]
    fn rare_and_specific_identifiers_score_higher() {
        let met = |messages| IdentifierStats { messages, ..CODE }.score("QX-9917", ALONE);
        check_order(&[met(3), met(4)]);
        let of = |text| CODE.score(text, ALONE);
        check_order(&["A-1234", "A-B123", "A-BC12", "A-BCD1", "A-BCDE"].map(of));
        assert_eq!(of("A-1234"), of("123456"));
        // A location does not become more specific with digits.
        let reached = |text| {
            let kind = IdentifierKind::Location;
            IdentifierStats { kind, ..CODE }.score(text, ALONE)
        };
        assert_eq!(reached("a.example"), reached("a.1234567"));
    }

    #[test]
    fn identifiers_with_few_similar_ones_score_higher() {
        let among =
            |family_in_text, family, form| CODE.score("QX-9917", [family_in_text, family, form]);
        check_order(&[1, 2, 40].map(|crowd| among(crowd, 1, 1)));
        check_order(&[1, 4, 400].map(|kin| among(1, kin, 1)));
        check_order(&[1, 16, 300].map(|alike| among(1, 1, alike)));
    }

    #[test]
    fn an_identifier_needs_a_reason_to_be_listed() {
        use IdentifierKind as Kind;
        let listed = |kind, source, cued| {
            let entry = IdentifierStats { kind, source, cued, ..CODE };
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
        let cued = IdentifierStats { cued: true, ..CODE };
        let numerator = ONE * (20 * 6 * 12) * (3 * 4) * 16;
        assert_eq!(cued.score("QXA-9917", [3, 9, 1]), numerator / 6 / 5 / 2 / 32);
    }
}
