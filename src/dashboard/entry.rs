//! Dashboard state of one conversation.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::dashboard::days::MAX_MODEL_CHARS;
use crate::dashboard::dto::{ConversationDetails, ConversationDto, RequestPoint};
use crate::dashboard::handle::DashboardRequest;
use crate::explanation::report::{ExplanationReport, MessageRow, RequestReport};
use crate::explanation::{ConversationId, StoredExplanation};
use crate::wall_clock;
use longhaul_core::clients::own_words;
use longhaul_core::conversation::{Conversation, Message};
use longhaul_core::text::wording;
use longhaul_core::units::scope::RecordKey;

/// Maximum requests shown of each conversation, the most recent ones.
const MAX_POINTS: usize = 400;

#[derive(Default)]
pub(super) struct DashboardEntry {
    pub(super) id: ConversationId,
    pub(super) dto: ConversationDto,
    points: VecDeque<RequestPoint>,
    /// Revision of the last change.
    pub(super) revision: u64,
    /// Summary that replaces the history.
    summary: Option<Arc<str>>,
    /// Start times of the summaries being made.
    pub(super) compacting: Vec<u64>,
    /// Keys of the list of texts that stay in the conversation, whose own key they follow from.
    pub(super) kept_keys: Vec<RecordKey>,
    conversation: Option<RecordKey>,
    /// Messages of the removed results that the agent asked for again last, each with the number of that request.
    asked_again: VecDeque<(usize, u64)>,
}

impl DashboardEntry {
    pub(super) fn new(id: ConversationId) -> Self {
        let dto = ConversationDto { id: id.to_string(), ..ConversationDto::default() };
        Self { id, dto, ..Self::default() }
    }

    /// Restores a conversation of an earlier process, without its requests.
    pub(super) fn from_row(row: ConversationDto) -> Option<Self> {
        Some(Self { id: ConversationId::parse(&row.id)?, dto: row, ..Self::default() })
    }

    pub(super) fn to_dto(&self) -> ConversationDto {
        ConversationDto { compacting: self.compacting.iter().min().copied(), ..self.dto.clone() }
    }

    /// Returns the list entry without text of the conversation.
    pub(super) fn to_row(&self) -> ConversationDto {
        ConversationDto { title: String::new(), body: String::new(), ..self.dto.clone() }
    }

    /// Returns the details, with the requests after number `after`.
    pub(super) fn to_details(&self, after: u64) -> ConversationDetails {
        let points = self.points.iter().filter(|point| point.number > after);
        ConversationDetails {
            conversation: self.to_dto(),
            points: points.cloned().collect(),
            summary: self.summary.clone(),
            kept: Vec::new(),
            kept_keys: self.kept_keys.clone(),
        }
    }

    /// Returns the newest request, without its explanation.
    pub(super) fn newest_point(&self) -> Option<RequestPoint> {
        self.points.back().map(|point| RequestPoint { explanation: None, ..point.clone() })
    }

    /// Returns the time of the newest request whose explanation is kept.
    pub(super) fn explanation_time(&self) -> Option<u64> {
        let mut points = self.points.iter().rev();
        points.find(|point| point.explanation.is_some()).map(|point| point.at)
    }

    /// Returns the explanation of the newest request that is `wanted`.
    pub(super) fn explanation(
        &self,
        wanted: impl Fn(&RequestPoint) -> bool,
    ) -> Option<ExplanationReport> {
        let mut points = self.points.iter().rev();
        let (point, explanation) = points.find_map(|point| {
            let explanation = point.explanation.as_deref()?;
            wanted(point).then_some((point, explanation))
        })?;
        let request = RequestReport {
            id: point.id.to_string(),
            conversation: self.dto.id.clone(),
            number: point.number,
            model: self.dto.model.clone(),
            at: point.at,
            duration_ms: point.duration_ms,
            status: point.status,
            error: point.error.as_deref().map(Into::into),
            actions: point.acts.clone(),
            prompt_tokens: point.prompt_tokens,
            cached_tokens: point.cached_tokens,
            cost: point.cost,
            lost_reasoning: self.dto.lost_reasoning,
            dropped_reasoning: self.dto.dropped_reasoning,
        };
        let mut report = ExplanationReport::of_request(explanation, request);
        for MessageRow { row, asked_again, .. } in &mut report.messages {
            let range = row.number..=row.through.unwrap_or(row.number);
            let mut asked = self.asked_again.iter().filter(|_| row.becomes < row.tokens);
            *asked_again = asked.find(|(at, _)| range.contains(at)).map(|(_, number)| *number);
        }
        Some(report)
    }

    /// Records the removed results that the request under way asks for again.
    pub(super) fn record_rereads(&mut self, results: &[usize]) {
        self.dto.rereads += results.len() as u64;
        self.asked_again.extend(results.iter().map(|at| (*at, self.dto.numbers.requests + 1)));
        let old = self.asked_again.len().saturating_sub(MAX_POINTS);
        self.asked_again.drain(..old);
    }

    /// Returns the requests that ended after `at` with an error and without an explanation.
    pub(super) fn failures_after(&self, at: u64) -> impl Iterator<Item = &RequestPoint> {
        let points = self.points.iter().rev();
        points
            .take_while(move |point| point.at >= at)
            .filter(|point| point.is_error && point.explanation.is_none())
    }

    /// Drops all text of the conversation, which must not be shown.
    pub(super) fn forget_content(&mut self) -> usize {
        self.summary = None;
        let points = self.points.iter_mut();
        let explanations = points.filter_map(|point| point.explanation.as_mut());
        explanations
            .map(|explanation| {
                let before = explanation.weight();
                Arc::make_mut(explanation).forget_content();
                before - explanation.weight()
            })
            .sum()
    }

    /// Drops all explanations and returns their weight.
    pub(super) fn forget_explanations(&mut self, keeps: usize) -> usize {
        let old = self.points.len().saturating_sub(keeps);
        let old = self.points.iter_mut().take(old);
        old.map(|point| weight(point.explanation.take())).sum()
    }

    /// Records a request that has ended. Returns the weight of the explanations that the record adds
    /// and drops.
    pub(super) fn record_end(
        &mut self,
        mut point: RequestPoint,
        explanation: Option<StoredExplanation>,
    ) -> (usize, usize) {
        point.number = self.dto.numbers.requests;
        let last = self.points.iter().rev().find(|point| point.went_on);
        point.changed_at = last.map_or(0, |last| last.changed_at);
        if point.went_on {
            let cleared = last.map_or(0, |last| last.cleared);
            point.newly_cleared = point.cleared.saturating_sub(cleared);
            point.rewritten = is_rewritten(&point, last);
            if point.rewritten {
                point.changed_at = point.number;
            }
        }
        point.explanation = explanation.map(|mut explanation| {
            let mut points = self.points.iter().rev();
            let previous = points.find_map(|point| point.explanation.as_deref());
            explanation.date_changes(point.number, previous);
            Arc::new(explanation)
        });
        let added = weight(point.explanation.clone());
        let mut dropped = 0;
        while self.points.len() >= MAX_POINTS {
            let oldest = self.points.pop_front();
            dropped += weight(oldest.and_then(|point| point.explanation));
        }
        self.points.push_back(point);
        (added, dropped)
    }

    pub(super) fn has_title(&self) -> bool {
        !self.dto.title.is_empty()
    }

    /// Records a request, and its title for a conversation that had none. Returns whether a person wants this
    /// request to be compacted.
    pub(super) fn apply(
        &mut self,
        arrival: DashboardRequest<'_>,
        (title, body, model): (Option<String>, Option<String>, String),
        is_hidden: bool,
    ) -> bool {
        if !self.has_title() {
            self.dto.title = title.unwrap_or_default();
        }
        if let Some(body) = body {
            self.dto.body = body;
        }
        self.dto.model = model;
        self.dto.agent = arrival.agent;
        self.dto.session = arrival.session;
        self.dto.caller = arrival.caller;
        self.dto.window = u64::from(arrival.window.get());
        self.dto.last = wall_clock::unix_millis();
        self.summary = arrival.summary.filter(|_| !is_hidden);
        let conversation = arrival.prefix_keys.conversation_key();
        if self.kept_keys.is_empty() || self.conversation != conversation {
            (self.conversation, self.kept_keys) = (conversation, arrival.prefix_keys.kept_keys());
        }
        arrival.may_compact && std::mem::take(&mut self.dto.compacts_next)
    }
}

/// Whether longhaul removed more from a request than from the one before, or would have in mode shadow.
/// Text that was removed before is removed from every later request too, so only a larger difference
/// counts.
fn is_rewritten(point: &RequestPoint, last: Option<&RequestPoint>) -> bool {
    let removed =
        |point: &RequestPoint| point.before.saturating_sub(point.shadow.unwrap_or(point.after));
    removed(point) > last.map_or(0, removed)
}

fn weight(explanation: Option<Arc<StoredExplanation>>) -> usize {
    explanation.map_or(0, |explanation| explanation.weight())
}

const MAX_TITLE_CHARS: usize = 80;
/// Maximum characters of a link in a title, which leave room for the rest.
const MAX_LINK_CHARS: usize = 32;
/// Maximum characters of the text below the title.
const MAX_BODY_CHARS: usize = 400;

/// Returns the beginning of the last user message.
pub(super) fn body(conversation: &Conversation<'_>) -> Option<String> {
    let last = user_messages(conversation).next_back();
    last.map(|last| wording::one_line(&conversation.text(last), MAX_BODY_CHARS))
}

/// Returns the name of the model, shortened.
pub(super) fn model(conversation: &Conversation<'_>) -> String {
    conversation.model().chars().take(MAX_MODEL_CHARS).collect()
}

/// Returns the title of a conversation: the beginning of the first user message with words of a person.
pub(super) fn title(conversation: &Conversation<'_>) -> Option<String> {
    user_messages(conversation).find_map(|user| {
        let words = own_words(&conversation.text(user)).join(" ");
        let words = words.trim_start_matches(['#', ' ']).split_whitespace();
        let chars =
            |word: &str| if word.contains("://") { MAX_LINK_CHARS } else { MAX_TITLE_CHARS };
        let words: Vec<_> = words.map(|word| wording::one_line(word, chars(word))).collect();
        let title = wording::one_line(&words.join(" "), MAX_TITLE_CHARS);
        (!title.is_empty()).then_some(title)
    })
}

fn user_messages<'c>(
    conversation: &'c Conversation<'_>,
) -> impl DoubleEndedIterator<Item = &'c Message> {
    let messages = conversation.messages().iter();
    messages.filter(|message| message.role.is_user())
}

#[cfg(test)]
mod tests {
    use longhaul_core::dialect::Dialect;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(texts: &[&str], expect: Option<&str>) {
        let messages = texts.iter().map(|text| json!({"role": "user", "content": text}));
        let body = json!({"model": "m", "messages": messages.collect::<Vec<_>>()}).to_string();
        let conversation = Dialect::ChatCompletions.read(body.as_bytes()).unwrap();
        assert_eq!(title(&conversation).as_deref(), expect, "{texts:?}");
    }

    #[test]
    fn wrappers_of_agents_are_no_title() {
        check(&["# Fix the build"], Some("Fix the build"));
        let reminder = "<system-reminder>\nx\n</system-reminder>\nFix it";
        check(&[reminder], Some("Fix it"));
        let instructions = "# AGENTS.md instructions for /home/x\n<INSTRUCTIONS>y</INSTRUCTIONS>";
        check(&[instructions, "Fix it"], Some("Fix it"));
        check(&["<b> is not closed"], Some("<b> is not closed"));
        let link = format!("Look at https://example.com/{} and fix it", "a".repeat(90));
        check(&[&link], Some("Look at https://example.com/aaaaaaaaaaa… and fix it"));
        check(&["  "], None);
    }
}
