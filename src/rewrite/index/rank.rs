//! Which identifiers are worth their place: what stands out, and what is worked with.

use super::kind::IdentifierKind;

/// Who wrote the text in which an identifier stands, least telling first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum IdentifierSource {
    /// A tool's result.
    Result,
    /// The arguments of a call.
    Call,
    /// The model's text.
    Assistant,
    /// The user's text.
    User,
}

impl IdentifierSource {
    /// How many there are.
    pub(super) const COUNT: usize = 4;
}

/// What is known of one identifier.
#[derive(Clone, Debug)]
pub(super) struct IdentifierStats {
    /// What it is.
    pub(super) kind: IdentifierKind,
    /// The family it belongs to.
    pub(super) family: u64,
    /// The tree that it stands in, if it is a path from the root.
    pub(super) tree: Option<u64>,
    /// How many of its characters nobody can guess.
    pub(super) unguessable_chars: usize,
    /// The most telling text that it stands in.
    pub(super) source: IdentifierSource,
    /// Whether a word introduces it somewhere.
    pub(super) cued: bool,
    /// In how many messages it stands.
    pub(super) messages: u32,
    /// In how many of them the agent itself wrote it.
    pub(super) agent_uses: u32,
    /// The text that it was last met in: the message, and whose.
    pub(super) last_seen: (usize, IdentifierSource),
    /// The newest message that it stands in.
    pub(super) newest_message: usize,
    /// How many of its family stand in the message where it was first met.
    pub(super) family_in_text: u32,
    /// How many of its family stand in texts at least as telling.
    pub(super) family_size: u32,
    /// How many paths there are in its tree.
    pub(super) tree_size: u32,
}

/// One, in the fixed point that scores are kept in: they decide on bytes, and floating point
/// logarithms differ between machines.
const ONE: u64 = 1 << 20;

/// A tree with more paths than this is one that is worked in.
const MAX_DISTINCTIVE_TREE: u32 = 16;

// Of the weights of either score only the ratios count; what they keep `benches/survival` measures.
impl IdentifierStats {
    /// How much it stands out: rare, specific, said by someone, alone of its sort. Not how lately:
    /// what was said once is as true a hundred windows on.
    pub(super) fn distinctive_score(&self, length: usize) -> u64 {
        let kind = match self.kind {
            IdentifierKind::Assignment => 24,
            IdentifierKind::Code => 20,
            IdentifierKind::Location => 12,
            IdentifierKind::Hash | IdentifierKind::Number => 10,
            // Nobody finds it by looking around in what is worked on.
            IdentifierKind::Path
                if self.tree.is_some() && self.tree_size <= MAX_DISTINCTIVE_TREE =>
            {
                12
            }
            IdentifierKind::Version => 5,
            IdentifierKind::Path => 2,
            IdentifierKind::Name => 1,
        };
        let source = match self.source {
            IdentifierSource::Result => 2,
            IdentifierSource::Call => 3,
            IdentifierSource::Assistant => 6,
            IdentifierSource::User => 10,
        };
        let cue = if self.cued { 5 } else { 2 };
        let rare = if self.messages <= 3 { 4 } else { 2 };
        let specific = match (self.kind, self.unguessable_chars) {
            (IdentifierKind::Location | IdentifierKind::Path, _) | (_, 4..) => 3,
            (_, 2..) => 2,
            (_, _) => 1,
        };
        let crowd = u64::from(self.family_in_text.saturating_sub(1));
        let kin = u64::from(self.family_size.isqrt());
        ONE * kind * source * cue * rare * specific * 16
            / (4 + crowd)
            / (2 + kin)
            / length_penalty(length)
    }

    /// How much the work hangs on it: written by the agent, met again and again, lately.
    pub(super) fn working_set_score(&self, length: usize, age: usize, span: usize) -> u64 {
        let kind = match self.kind {
            IdentifierKind::Name | IdentifierKind::Path => 4,
            IdentifierKind::Assignment | IdentifierKind::Code | IdentifierKind::Location => 2,
            IdentifierKind::Hash | IdentifierKind::Number | IdentifierKind::Version => 1,
        };
        let used = u64::from(self.agent_uses.min(8)) * 3;
        let met = u64::from((self.messages + 1).ilog2()) * 2;
        ONE * kind * (1 + used + met) * 16 / length_penalty(length) * recency(age, span) / ONE
    }
}

/// What it costs, less steeply than its length: short first, but not short only.
fn length_penalty(length: usize) -> u64 {
    u64::try_from(12 + length).unwrap_or(u64::MAX)
}

/// From one for the newest down to a third for the oldest.
fn recency(age: usize, span: usize) -> u64 {
    let share = u64::try_from(age).unwrap_or(u64::MAX).saturating_mul(ONE)
        / u64::try_from(span.max(1)).unwrap_or(u64::MAX);
    ONE * ONE / (ONE + 2 * share.min(ONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A code with four figures that the model wrote once.
    fn code() -> IdentifierStats {
        IdentifierStats {
            kind: IdentifierKind::Code,
            family: 0,
            tree: None,
            unguessable_chars: 4,
            source: IdentifierSource::Assistant,
            cued: false,
            messages: 1,
            agent_uses: 1,
            last_seen: (0, IdentifierSource::Assistant),
            newest_message: 0,
            family_in_text: 1,
            family_size: 1,
            tree_size: 1,
        }
    }

    /// Holds that each stands out more than the one behind it, all being of one length.
    fn check_order(entries: &[IdentifierStats]) {
        for pair in entries.windows(2) {
            let [one, other] = pair else { unreachable!() };
            let scores = (one.distinctive_score(10), other.distinctive_score(10));
            assert!(scores.0 > scores.1, "{one:?} {other:?} {scores:?}");
        }
    }

    #[test]
    fn what_is_said_by_someone_stands_out() {
        let of = |source| IdentifierStats { source, ..code() };
        check_order(&[
            of(IdentifierSource::User),
            of(IdentifierSource::Assistant),
            of(IdentifierSource::Call),
            of(IdentifierSource::Result),
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
    fn what_is_rare_and_specific_stands_out() {
        let met = |messages| IdentifierStats { messages, ..code() };
        check_order(&[met(3), met(4)]);
        let of = |figures| IdentifierStats {
            unguessable_chars: figures,
            ..code()
        };
        check_order(&[of(4), of(3), of(1)]);
        assert_eq!(of(2).distinctive_score(10), of(3).distinctive_score(10));
        // Where something is reached is no less specific without figures.
        let reached = |figures| IdentifierStats {
            kind: IdentifierKind::Location,
            ..of(figures)
        };
        assert_eq!(
            reached(0).distinctive_score(10),
            reached(9).distinctive_score(10)
        );
    }

    #[test]
    fn what_is_alone_of_its_sort_stands_out() {
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
    fn a_path_stands_out_where_nobody_would_look_around() {
        let path = |tree, neighbours| IdentifierStats {
            kind: IdentifierKind::Path,
            tree,
            tree_size: neighbours,
            ..code()
        };
        check_order(&[
            path(Some(7), MAX_DISTINCTIVE_TREE),
            path(Some(7), MAX_DISTINCTIVE_TREE + 1),
        ]);
        check_order(&[path(Some(7), 1), path(None, 1)]);
    }

    #[test]
    fn what_the_agent_writes_again_and_again_is_worked_with() {
        let path = |used, messages| IdentifierStats {
            kind: IdentifierKind::Path,
            agent_uses: used,
            messages,
            ..code()
        };
        let score = |entry: IdentifierStats| entry.working_set_score(10, 0, 100);
        assert!(score(path(2, 2)) > score(path(1, 2)));
        assert!(score(path(1, 7)) > score(path(1, 2)));
        assert!(
            score(path(1, 1))
                > score(IdentifierStats {
                    agent_uses: 1,
                    ..code()
                })
        );
        assert_eq!(score(path(8, 9)), score(path(9, 9)));
    }

    /// Scores decide on forwarded bytes: these are worked out by hand.
    #[test]
    fn scores_are_what_they_are_on_every_machine() {
        let cued = IdentifierStats {
            cued: true,
            family_in_text: 3,
            family_size: 9,
            ..code()
        };
        let numerator = ONE * (20 * 6 * 5 * 4 * 3) * 16;
        assert_eq!(cued.distinctive_score(8), numerator / 6 / 5 / 20);
        let path = IdentifierStats {
            kind: IdentifierKind::Path,
            agent_uses: 2,
            messages: 7,
            ..code()
        };
        assert_eq!(path.working_set_score(8, 50, 100), 21_810_380);
        assert_eq!(recency(0, 100), ONE);
        assert_eq!(recency(25, 100), ONE * 2 / 3);
        assert_eq!(recency(100, 100), ONE / 3);
        assert_eq!(recency(500, 100), ONE / 3);
    }
}
