//! Thrash detection: conversations that fill up again soon after every compaction.
//!
//! Agents whose window fills again within three turns have been compacted hundreds of times without
//! making progress. The state depends on the history and its records alone, so that every replica
//! reacts alike.

use crate::conversation::Conversation;
use crate::policy::Policy;
use crate::policy::record::Clip;
use serde::{Deserialize, Serialize};

/// Maximum requests since the previous compaction for a compaction to count as quick.
const QUICK_REQUESTS: usize = 3;
/// Number of consecutive quick compactions that counts as thrashing.
const THRASH_COMPACTIONS: u32 = 2;

/// Detector of conversations that fill up too soon after each compaction.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ThrashState {
    /// Number of messages at the last compaction; zero before the first.
    messages: usize,
    /// Number of consecutive quick compactions, up to the last one.
    quick: u32,
}

impl ThrashState {
    /// Restarts the count at `messages` messages, after recovery from an overflow used stronger
    /// means.
    pub(crate) fn restarted_at(messages: usize) -> Self {
        Self { messages, quick: 0 }
    }

    /// Returns the state after one more compaction, at `messages` messages.
    #[must_use]
    pub fn after_compaction(self, conversation: &Conversation<'_>, messages: usize) -> Self {
        // Larger counts make no difference.
        let requests = conversation.request_points_after(self.messages);
        let requests = requests.take_while(|&point| point <= messages);
        self.after_requests(requests.take(QUICK_REQUESTS + 1).count(), messages)
    }

    /// Returns the state after one more compaction, at the last of `requests` requests since the
    /// one before.
    #[must_use]
    pub(crate) fn after_requests(self, requests: usize, messages: usize) -> Self {
        let quick = self.messages > 0 && (1..=QUICK_REQUESTS).contains(&requests);
        Self { messages, quick: if quick { self.quick + 1 } else { 0 } }
    }

    /// Returns the state with its message index mapped by `moved`.
    pub(crate) fn map_position(self, moved: impl Fn(usize) -> usize) -> Self {
        let messages = match self.messages {
            0 => 0,
            messages => moved(messages),
        };
        Self { messages, ..self }
    }

    /// Whether the last compaction was at `messages` messages.
    pub fn was_compacted_at(self, messages: usize) -> bool {
        self.messages == messages
    }

    /// Whether compaction alone does not help. Then half as much is kept, all old results are
    /// cleared, and the largest is clipped.
    pub fn is_thrashing(self) -> bool {
        self.quick >= THRASH_COMPACTIONS
    }

    /// Whether thrashing starts with the last compaction.
    pub fn starts_thrashing(self) -> bool {
        self.quick == THRASH_COMPACTIONS
    }

    /// Number of messages at the last compaction.
    pub(crate) fn compacted_len(self) -> usize {
        self.messages
    }
}

/// Returns the clip of the largest result from `summarised_until` to `upto` that the model has
/// seen. Returns `None` if every result is small enough to keep whole. `is_shown` returns whether a
/// result is not cleared.
pub(crate) fn clip_largest_result(
    conversation: &Conversation<'_>,
    policy: &Policy,
    summarised_until: usize,
    upto: usize,
    is_shown: impl Fn(usize) -> bool,
) -> Option<Clip> {
    let seen = summarised_until..conversation.newest_unit(upto);
    let results = seen.filter_map(|at| Some((conversation.message(at)?, at)));
    let (largest, message) = results
        .filter(|(message, at)| message.is_replaceable_result() && is_shown(*at))
        .max_by_key(|(message, at)| (message.text_tokens, *at))?;
    let max_tokens = policy.keep_recent.divided_by(2);
    let mut sizes = Clip::SIZES.into_iter();
    let end = sizes.find(|&end| end + end <= max_tokens)?;
    Clip::new(message, largest.text_tokens, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use crate::policy::CompactionSettings;
    use crate::policy::cut_point::tests::body_saying;
    use crate::units::tokens::Tokens;

    /// Builds `turns` pairs of a user message and an answer; each user message is a request.
    fn body(turns: usize) -> String {
        let turn = r#"{"role":"user","content":"x"},{"role":"assistant","content":"y"}"#;
        format!(r#"{{"messages":[{}]}}"#, vec![turn; turns].join(","))
    }

    fn check(compactions: &[usize], quick: u32) {
        let body = body(40);
        let conversation = read(body.as_bytes()).unwrap();
        let thrash = compactions
            .iter()
            .fold(ThrashState::default(), |thrash, &at| thrash.after_compaction(&conversation, at));
        assert_eq!(thrash.quick, quick, "{compactions:?}");
        assert_eq!(thrash.is_thrashing(), quick >= 2, "{compactions:?}");
        assert_eq!(thrash.starts_thrashing(), quick == 2, "{compactions:?}");
    }

    #[test]
    fn two_quick_compactions_in_a_row_are_thrashing() {
        check(&[9], 0);
        check(&[9, 15], 1);
        check(&[9, 15, 21], 2);
        check(&[9, 15, 21, 23], 3);
    }

    #[test]
    fn a_fourth_request_between_compactions_resets_the_count() {
        check(&[9, 15, 23], 0);
        check(&[9, 17, 23], 1);
    }

    #[test]
    fn request_points_after_a_length_equal_the_later_request_points() {
        let turn = r#"{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":""}},{"id":"2","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"1","content":"y"},{"role":"tool","tool_call_id":"2","content":"z"}"#;
        let body = format!(r#"{{"messages":[{turn},{turn},{turn}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        let all: Vec<usize> = conversation.request_points().collect();
        assert_eq!(all, [1, 4, 5, 8, 9, 12]);
        for past in 0..=13 {
            let later: Vec<usize> = conversation.request_points_after(past).collect();
            let mut expect = all.clone();
            expect.retain(|&point| point > past);
            assert_eq!(later, expect, "{past}");
        }
    }

    #[test]
    fn first_compaction_and_a_rewound_history_are_not_quick() {
        check(&[3], 0);
        check(&[31, 9], 0);
        check(&[9, 9], 0);
    }

    /// Returns the state after compactions at these numbers of messages.
    fn after(thrash: ThrashState, compactions: &[usize]) -> ThrashState {
        let body = body(40);
        let conversation = read(body.as_bytes()).unwrap();
        let compacted =
            |thrash: ThrashState, &at: &usize| thrash.after_compaction(&conversation, at);
        compactions.iter().fold(thrash, compacted)
    }

    #[test]
    fn recovery_restarts_the_thrash_count_at_its_length() {
        let thrash = ThrashState::restarted_at(9);
        assert_eq!(thrash.compacted_len(), 9);
        assert_eq!([8, 9, 10].map(|at| thrash.was_compacted_at(at)), [false, true, false]);
        assert_eq!(after(thrash, &[15]), ThrashState { messages: 15, quick: 1 });
        assert_eq!(after(thrash, &[17]), ThrashState::restarted_at(17));
    }

    #[test]
    fn thrash_positions_shift_with_the_conversation() {
        let moved = after(ThrashState::default(), &[9, 15, 21]).map_position(|at| at + 2);
        assert!(moved.was_compacted_at(23) && moved.is_thrashing());
        // A conversation that was never compacted stays that way.
        assert_eq!(ThrashState::default().map_position(|at| at + 2), ThrashState::default());
    }

    /// Returns the clip of a question and three reads, the last of them new, if `keep` tokens are
    /// kept. `tokens` gives the sizes of messages, `cleared` lists the cleared ones, and a summary
    /// covers all before `summarised_until`.
    fn clip(
        keep: u32,
        tokens: &[(usize, usize)],
        summarised_until: usize,
        cleared: &[usize],
    ) -> Option<Clip> {
        const STEPS: &str = "uctctct";
        let texts: Vec<_> =
            tokens.iter().map(|&(at, tokens)| (at, "word".repeat(tokens))).collect();
        let says: Vec<_> = texts.iter().map(|(at, text)| (*at, &**text)).collect();
        let body = body_saying(STEPS, &says);
        let conversation = read(body.as_bytes()).unwrap();
        let mut policy = Policy::new(&CompactionSettings::default(), Tokens::new(200_000));
        policy.keep_recent = Tokens::new(keep);
        let is_shown = |at| !cleared.contains(&at);
        clip_largest_result(&conversation, &policy, summarised_until, STEPS.len(), is_shown)
    }

    fn ends(message: usize, tokens: u32) -> Clip {
        let (head, tail) = (Tokens::new(tokens), Tokens::new(tokens));
        Clip { message, head, tail }
    }

    #[test]
    fn clips_the_largest_seen_result_that_is_still_visible() {
        let sizes = [(0, 9_000), (1, 9_000), (2, 6_000), (4, 5_000), (6, 9_000)];
        assert_eq!(clip(8_000, &sizes, 0, &[]), Some(ends(2, 2_000)));
        assert_eq!(clip(8_000, &sizes, 0, &[2]), Some(ends(4, 2_000)));
        assert_eq!(clip(8_000, &sizes, 3, &[]), Some(ends(4, 2_000)));
        assert_eq!(clip(8_000, &sizes, 0, &[2, 4]), None);
        assert_eq!(clip(8_000, &sizes, 5, &[]), None);
        // The newer of two results of equal size.
        let alike = [(2, 5_000), (4, 5_000)];
        assert_eq!(clip(8_000, &alike, 0, &[]), Some(ends(4, 2_000)));
    }

    #[test]
    fn a_clip_keeps_at_most_half_of_keep_recent() {
        let check = |keep, expect| {
            let clip = clip(keep, &[(2, 9_000)], 0, &[]);
            assert_eq!(clip, expect, "{keep}");
        };
        check(800_000, Some(ends(2, 2_000)));
        check(8_000, Some(ends(2, 2_000)));
        check(7_999, Some(ends(2, 1_000)));
        check(4_000, Some(ends(2, 1_000)));
        check(3_999, Some(ends(2, 500)));
        check(2_000, Some(ends(2, 500)));
        check(1_999, Some(ends(2, 200)));
        check(800, Some(ends(2, 200)));
        check(799, None);
    }

    #[test]
    fn a_result_hardly_longer_than_its_clip_stays_whole() {
        let most = 2_000 + 2_000 + 15;
        assert_eq!(clip(8_000, &[(2, most)], 0, &[]), None);
        assert_eq!(clip(8_000, &[(2, most + 1)], 0, &[]), Some(ends(2, 2_000)));
    }
}
