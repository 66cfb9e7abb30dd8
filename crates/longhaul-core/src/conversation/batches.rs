//! Tool results, matched with the calls they answer.

use crate::clients;
use crate::conversation::{Conversation, Message, Role, ToolCall};
use crate::json::scanner::Literal;
use crate::text::wording;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// Maximum calls whose ids are compared pairwise.
const MAX_PAIRWISE_CALLS: usize = 8;

/// Calls stored inline; most messages make no more.
const INLINE_CALLS: usize = 4;

/// Bytes of a result that are decoded first. Nearly always, they hold the characters that decide.
const START_BYTES: usize = 128;

/// A batch of tool results: the consecutive results after an assistant message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Batch {
    /// Indices of the result messages.
    pub results: Range<usize>,
    /// Number of messages of the conversation at which every call was answered; `None` while one is
    /// not.
    pub complete_at: Option<usize>,
    /// For each result, the index of the call that it answers among those before the batch.
    call_indices: SmallVec<[Option<usize>; INLINE_CALLS]>,
}

impl Batch {
    /// Returns the index of the call that the result at message `at` answers.
    pub(crate) fn call_index(&self, at: usize) -> Option<usize> {
        *self.call_indices.get(at.checked_sub(self.results.start)?)?
    }
}

impl Conversation<'_> {
    /// Returns the call that the result at `at` of `batch` answers, in the message before the
    /// batch.
    pub fn call_for_result(&self, batch: &Batch, at: usize) -> Option<&ToolCall> {
        self.calls_before(&batch.results).get(batch.call_index(at)?)
    }

    /// Returns the batch of the result at `at`; `None` if no result is there.
    pub(crate) fn batch_of(&self, at: usize) -> Option<&Batch> {
        let batches = self.batches();
        let batch = batches.partition_point(|batch| batch.results.end <= at);
        batches.get(batch).filter(|it| it.results.contains(&at))
    }

    /// Returns the call that the result at `at` answers.
    pub(crate) fn answered_call(&self, at: usize) -> Option<&ToolCall> {
        self.call_for_result(self.batch_of(at)?, at)
    }

    /// Returns the result of call `number` of the message at `at`; `None` if the call is not answered.
    pub(crate) fn result_of(&self, at: usize, number: usize) -> Option<&Message> {
        let batches = self.batches();
        let batch = batches.partition_point(|batch| batch.results.start <= at);
        let batch = batches.get(batch).filter(|it| it.results.start == at + 1)?;
        let result = batch.results.clone();
        let mut answers = result.filter(|result| batch.call_index(*result) == Some(number));
        self.message(answers.next()?)
    }

    /// Whether a result begins like a call that the user rejected.
    pub(crate) fn may_be_rejected(&self, result: &Message) -> bool {
        let first = || self.texts(result).next();
        let look = || first().is_some_and(|text| clients::may_reject(text.raw(self.body)));
        let memo = result.memo();
        memo.map_or_else(look, |memo| *memo.may_be_rejected.get_or_init(look))
    }

    /// Whether a result reports a failure: by a member of its API, or by its first words.
    pub(crate) fn reports_failure(&self, result: &Message) -> bool {
        let first = self.texts(result).next();
        let start = first.map(|literal| literal.decode_start(self.body, START_BYTES));
        // White space may fill the start.
        let start =
            start.filter(|it| it.trim_start().chars().nth(wording::FAILURE_CHARS).is_some());
        let text = || start.unwrap_or_else(|| self.text(result));
        result.is_error || wording::reports_failure(&text())
    }

    pub(super) fn find_batches(&self) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut at = 0;
        while at < self.messages().len() {
            let rest = self.messages().get(at..).unwrap_or_default();
            let run = rest.iter().take_while(|message| message.role.is_tool_result()).count();
            if run > 0 {
                let results = at..at + run;
                batches.push(self.match_batch(results));
            }
            at += run.max(1);
        }
        batches
    }

    /// Returns the calls of the assistant message directly before `results`.
    fn calls_before(&self, results: &Range<usize>) -> &[ToolCall] {
        let before = results.start.checked_sub(1).and_then(|at| self.messages().get(at));
        before
            .filter(|message| message.role == Role::Assistant)
            .map_or(&[], |message| self.calls(message))
    }

    /// Matches results with the calls before them, by id or because both are legacy.
    fn match_batch(&self, results: Range<usize>) -> Batch {
        let calls = self.calls_before(&results);
        let answers = self.messages().get(results.clone()).unwrap_or_default();
        if self.are_answered_in_order(calls, answers) {
            return Batch {
                complete_at: Some(results.end),
                call_indices: (0..calls.len()).map(Some).collect(),
                results,
            };
        }
        let ids = calls.iter().map(|call| call.id);
        let mut open = OpenCalls::new(ids.map(|id| Some(id?.decode(self.body))));
        let mut complete_at = None;
        let mut call_indices = SmallVec::with_capacity(results.len());
        for (result, at) in answers.iter().zip(results.clone()) {
            let by_id = result.tool_call_id.map(|id| Some(id.decode(self.body)));
            let legacy = (result.role == Role::Function).then_some(None);
            call_indices.push(open.resolve(&[by_id, legacy]));
            if open.unanswered == 0 && !calls.is_empty() {
                complete_at = complete_at.or(Some(at + 1));
            }
        }
        Batch { results, complete_at, call_indices }
    }

    /// Whether there are few calls, with distinct ids, answered in order. Nearly all batches are.
    fn are_answered_in_order(&self, calls: &[ToolCall], answers: &[Message]) -> bool {
        let plain = |id: Option<Literal>| {
            let id = id.filter(|id| !id.is_escaped())?;
            Some(id.raw(self.body))
        };
        let mut ids: SmallVec<[&str; MAX_PAIRWISE_CALLS]> = SmallVec::new();
        calls.len() == answers.len()
            && calls.len() <= MAX_PAIRWISE_CALLS
            && calls.iter().zip(answers).all(|(call, answer)| {
                let Some(id) = plain(call.id).filter(|id| !ids.contains(id)) else {
                    return false;
                };
                ids.push(id);
                answer.role == Role::Tool && plain(answer.tool_call_id) == Some(id)
            })
    }
}

/// The id that matches calls with results; `None` for a legacy `function_call`.
type CallId<'a> = Option<Cow<'a, str>>;

/// Calls of one assistant message, matched with results as those arrive.
struct OpenCalls<'a> {
    /// The calls of each id, in order, and how many of them are answered.
    by_id: HashMap<CallId<'a>, (SmallVec<[usize; 1]>, usize)>,
    unanswered: usize,
}

impl<'a> OpenCalls<'a> {
    fn new(ids: impl Iterator<Item = CallId<'a>>) -> Self {
        let mut open = Self { by_id: HashMap::new(), unanswered: 0 };
        for (at, id) in ids.enumerate() {
            open.by_id.entry(id).or_default().0.push(at);
            open.unanswered += 1;
        }
        open
    }

    /// Returns the call that a result with these ids belongs to: the first with one of the ids,
    /// answered or not. Marks the first unanswered call with one of the ids as answered: if two
    /// calls share an id, a second result answers the second call.
    fn resolve(&mut self, ids: &[Option<CallId<'a>>; 2]) -> Option<usize> {
        let runs = ids.iter().flatten().filter_map(|id| Some((id, self.by_id.get(id)?)));
        let place = runs.clone().filter_map(|(_, (calls, _))| calls.first().copied()).min();
        let waiting = runs.filter_map(|(id, (calls, answered))| Some((*calls.get(*answered)?, id)));
        if let Some((_, id)) = waiting.min()
            && let Some((_, answered)) = self.by_id.get_mut(id)
        {
            *answered += 1;
            self.unanswered -= 1;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dialect::chat_completions::read;

    /// The batches of a message that makes calls with the ids `calls`, followed by results for
    /// `answers`. Escaped ids take the general matching path.
    fn batches(calls: &[u8], answers: &[u8], id: impl Fn(u8) -> String) -> Vec<Batch> {
        let calls = calls.iter().map(|&call| {
            let id = id(call);
            format!(r#"{{"id":"{id}","type":"function","function":{{"name":"read"}}}}"#)
        });
        let calls = calls.collect::<Vec<_>>().join(",");
        let answers = answers.iter().map(|&answer| {
            let id = id(answer);
            format!(r#",{{"role":"tool","tool_call_id":"{id}","content":"x"}}"#)
        });
        let answers: String = answers.collect();
        let body = format!(
            r#"{{"messages":[{{"role":"assistant","content":null,"tool_calls":[{calls}]}}{answers}]}}"#
        );
        read(body.as_bytes()).unwrap().batches().to_vec()
    }

    fn check(calls: &[u8], answers: &[u8]) {
        let plain = batches(calls, answers, |id| format!("call-{id}"));
        let escaped = batches(calls, answers, |id| format!("c\\u0061ll-{id}"));
        assert_eq!(plain, escaped, "{calls:?} {answers:?}");
    }

    #[test]
    fn results_in_call_order_match_like_those_of_the_general_path() {
        let many: Vec<u8> = (0..=u8::try_from(MAX_PAIRWISE_CALLS).unwrap()).collect();
        for count in 1..=many.len() {
            check(&many[..count], &many[..count]);
        }
        check(&[0, 0], &[0, 0]);
        check(&[0, 1], &[1, 0]);
        check(&[0, 1], &[0]);
        check(&[0], &[0, 0]);
    }

    #[test]
    fn a_failure_is_found_in_a_long_result_as_in_its_whole_text() {
        let text = |text: &str| serde_json::json!({"type": "text", "text": text});
        let image = serde_json::json!({"type": "image_url", "image_url": {"url": "data:,x"}});
        for before in ["", " ", "x", "\n", "é"].map(|it| it.repeat(START_BYTES)) {
            for start in ["Error: \"no\" ", "fine ", "\u{212a}panic ", "", "err"] {
                for rest in ["", "x", "or: \n😀"].map(|it| it.repeat(START_BYTES)) {
                    for content in [
                        serde_json::json!(format!("{before}{start}{rest}")),
                        serde_json::json!([text(&before), text(start), text(&rest)]),
                        serde_json::json!([image, text(start), text(&rest)]),
                    ] {
                        let message = serde_json::json!({"role": "tool", "tool_call_id": "a", "content": content});
                        let body = serde_json::json!({"messages": [message]}).to_string();
                        let conversation = read(body.as_bytes()).unwrap();
                        let result = conversation.message(0).unwrap();
                        let expect = wording::reports_failure(&conversation.text(result));
                        assert_eq!(conversation.reports_failure(result), expect, "{body}");
                    }
                }
            }
        }
    }

    #[test]
    fn two_spellings_of_one_id_are_the_same_id() {
        let spell = |id: u8| ["a", r"\u0061"][usize::from(id)].to_owned();
        let calls: Vec<_> = batches(&[0, 1], &[0, 1], spell)
            .iter()
            .flat_map(|batch| batch.call_indices.to_vec())
            .collect();
        assert_eq!(calls, [Some(0), Some(0)]);
    }

    /// Calls with their results in order, in any order, or with one result changed.
    fn answered() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let apart = (Just((0..12).collect::<Vec<u8>>()).prop_shuffle(), 0..=MAX_PAIRWISE_CALLS + 2);
        let apart = apart.prop_map(|(ids, count)| ids[..count].to_vec());
        let alike = prop::collection::vec(0..4_u8, 0..6);
        prop_oneof![3 => apart, 1 => alike].prop_flat_map(|calls| {
            let edit = (any::<prop::sample::Index>(), 0..2_usize, 0..2_usize, 0..12_u8);
            let edited = (Just(calls.clone()), edit).prop_map(|(mut ids, (at, out, into, id))| {
                let at = at.index(ids.len() + 1);
                let end = (at + out).min(ids.len());
                ids.splice(at..end, vec![id; into]);
                ids
            });
            let answers = prop_oneof![
                2 => Just(calls.clone()),
                1 => Just(calls.clone()).prop_shuffle(),
                2 => edited,
            ];
            (Just(calls), answers)
        })
    }

    proptest! {
        #[test]
        fn both_matching_paths_agree_on_any_results((calls, answers) in answered()) {
            check(&calls, &answers);
        }
    }
}
