//! The steps of the model at the chosen requests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::Serialize;
use tokio::task::JoinSet;

use super::arms::Arm;
use super::paid_client::{CallOutcome, PaidClient, StepCall};
use super::replay::replay;
use super::results_file::EntryKind;
use super::sessions::EvalSession;
use crate::error::LabError;
use crate::evaluation::agent_step::AgentStep;
use crate::evaluation::changes::{MessageChange, changed_messages};
use crate::evaluation::step_request::scored_prompt::{ScoredPrompt, scoring_request, shortest};
use crate::progress::ProgressLine;
use longhaul_console::amounts::short_usd;
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::Dialect;

/// Maximum changes of one request that a report shows.
const MAX_CHANGES: usize = 40;
/// Maximum characters of one text in a report.
const MAX_CHARS: usize = 1_500;
/// Messages at the end of a request that a report shows.
const SHOWN_MESSAGES: usize = 3;

/// Outcome of a request for a step with one form of a history.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub(super) enum StepOutcome {
    /// The model answered.
    Step(AgentStep),
    /// The upstream scored the recorded step.
    Scored(ScoredPrompt),
    /// The history does not fit the model's window.
    DoesNotFit,
    /// The upstream failed.
    Failed { reason: String },
    /// The call was not made, because of the budget.
    NotSent,
    /// longhaul forwards this request as it came, so that there is nothing to compare.
    Unchanged,
}

/// The step with the history as longhaul forwards it under one arm.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ArmOutcome {
    pub(super) step: StepOutcome,
    /// Number of changes.
    pub(super) changes: usize,
    /// The changes, as far as the report shows them.
    #[serde(skip)]
    pub(super) shown_changes: Vec<MessageChange>,
}

/// The steps at one request.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) session: String,
    /// Number of the request in its session, from 1.
    pub(super) request: usize,
    /// The last messages of the request, author and text.
    #[serde(skip)]
    pub(super) asked: Vec<(String, String)>,
    pub(super) original: StepOutcome,
    pub(super) control: StepOutcome,
    /// One outcome for each arm, in order.
    pub(super) arms: Vec<ArmOutcome>,
}

impl StepOutcome {
    /// Returns the step, if the model answered.
    pub(super) fn step(&self) -> Option<&AgentStep> {
        if let Self::Step(step) = self { Some(step) } else { None }
    }

    /// Returns the score of the recorded step, if the upstream scored it.
    pub(super) fn score(&self) -> Option<&ScoredPrompt> {
        if let Self::Scored(scored) = self { Some(scored) } else { None }
    }

    /// Leaves the tokens of the step in a score. The scores of the shortest history with and without it tell their
    /// number.
    fn of_step(self, with: &Self, without: &Self) -> Self {
        let Self::Scored(scored) = self else {
            return self;
        };
        let Some((with, without)) = with.score().zip(without.score()) else {
            return Self::NotSent;
        };
        let reason = "the server writes the step in other tokens after this history".to_owned();
        scored.step(with, without).map_or(Self::Failed { reason }, Self::Scored)
    }
}

/// Queries the model for the steps at the requests `wanted` of `session`, at most `concurrency` at a time. Fails
/// if no further call can succeed.
pub(super) async fn ask(
    caller: &Arc<PaidClient>,
    session: &EvalSession,
    arms: &[Arm],
    wanted: &[usize],
    concurrency: usize,
    progress: &ProgressLine,
) -> Result<Vec<Sample>, LabError> {
    let mut replays = Vec::new();
    for arm in arms {
        let model = &caller.model.name;
        replays.push(replay(arm, session, model, Some(caller), Some(wanted)).await?);
    }
    let bodies = session.recording.bodies().map(Bytes::from).enumerate();
    let originals: BTreeMap<_, _> = bodies.filter(|(at, _)| wanted.contains(at)).collect();
    let shortest = shortest(&caller.model.name);
    let mut calls: Vec<(String, StepCall)> = Vec::new();
    let mut planned = Vec::new();
    for (at, original) in &originals {
        let mut plan = |body: &Bytes, step: &str, repetition, history: &str| {
            let scoring = caller.is_scoring.then(|| scoring_request(body, step));
            let call = StepCall {
                dialect: session.dialect,
                body: scoring.flatten().unwrap_or_else(|| body.clone()),
                repetition,
                place: format!("{}, request {}, {history}", session.recording.name, at + 1),
            };
            let key = caller.step_key(&call);
            calls.push((key.clone(), call));
            key
        };
        let step = session.recording.step_after(*at).unwrap_or_default();
        let again = if caller.is_scoring { &shortest } else { original };
        // The smallest call comes first: an upstream without scores costs no more. Unless steps are scored, both
        // calls of the control are one.
        let [without, control] = ["", step].map(|step| plan(again, step, 1, "control"));
        let own = [plan(original, step, 0, "as it came"), control, without];
        // The key of each arm's call, or the outcome without one.
        let forwarded =
            arms.iter().zip(&replays).map(|(arm, replayed)| match replayed.bodies.get(at) {
                Some(body) => Ok(plan(body, step, 0, &arm.name)),
                None if replayed.changed.get(*at) == Some(&false) => Err(StepOutcome::Unchanged),
                None => Err(StepOutcome::NotSent),
            });
        planned.push((at, original, own, forwarded.collect::<Vec<_>>()));
    }
    let outcomes = make(caller, calls, concurrency, progress).await?;
    let outcome = |key: &String| outcomes.get(key).cloned().unwrap_or(StepOutcome::NotSent);
    let samples = planned.into_iter().map(|(at, original, own, forwarded)| {
        let [_, control, without] = own.each_ref().map(outcome);
        let outcome = |key: &String| outcome(key).of_step(&control, &without);
        let [first, second, _] = own.each_ref().map(outcome);
        let arms = forwarded.iter().zip(&replays).map(|(forwarded, replayed)| {
            let step = forwarded.as_ref().map_or_else(Clone::clone, outcome);
            let body = replayed.bodies.get(at);
            let changes = body.and_then(|body| changes_of(session.dialect, original, body));
            let mut shown_changes = changes.unwrap_or_default();
            let changes = shown_changes.len();
            shown_changes.truncate(MAX_CHANGES);
            ArmOutcome { step, changes, shown_changes }
        });
        Sample {
            session: session.recording.name.clone(),
            request: at + 1,
            asked: last_messages(session.dialect, original),
            original: first,
            control: second,
            arms: arms.collect(),
        }
    });
    Ok(samples.collect())
}

/// Makes the calls, each key once, and returns the outcomes by key.
async fn make(
    caller: &Arc<PaidClient>,
    calls: Vec<(String, StepCall)>,
    concurrency: usize,
    progress: &ProgressLine,
) -> Result<HashMap<String, StepOutcome>, LabError> {
    let mut outcomes = HashMap::new();
    let mut known = HashSet::new();
    let mut left = calls;
    // Two arms may forward the same bytes.
    left.retain(|(key, _)| known.insert(key.clone()));
    left.reverse();
    let mut running = JoinSet::new();
    let mut problem = None;
    loop {
        while problem.is_none()
            && running.len() < concurrency.max(1)
            && let Some((key, call)) = left.pop()
        {
            let caller = Arc::clone(caller);
            running.spawn(async move { (key, call.dialect, caller.step(&call).await) });
        }
        let Some(done) = running.join_next().await else {
            return problem.map_or(Ok(outcomes), Err);
        };
        let Ok((key, dialect, called)) = done else {
            continue;
        };
        match called {
            Ok(called) => {
                outcomes.insert(key, outcome_of(dialect, called));
                if caller.is_spending() {
                    let answers = caller.answers.fetch_add(1, Ordering::Relaxed) + 1;
                    let spent = short_usd(caller.spending.lock().spent());
                    progress.show(&format!("{answers} answers, {spent}"));
                }
            }
            // Calls in flight are paid for, so their answers are still recorded.
            Err(found) => problem = problem.or(Some(found)),
        }
    }
}

fn outcome_of(dialect: Dialect, called: CallOutcome) -> StepOutcome {
    match called {
        CallOutcome::NotSent => StepOutcome::NotSent,
        CallOutcome::Failed(reason) => StepOutcome::Failed { reason },
        CallOutcome::Recorded(entry) => match entry.kind {
            EntryKind::Overflow => StepOutcome::DoesNotFit,
            EntryKind::Step | EntryKind::Summary => {
                let scored = serde_json::from_str(&entry.reply).ok().map(StepOutcome::Scored);
                let step = || AgentStep::read(dialect, entry.reply.as_bytes());
                let outcome = scored.or_else(|| Some(StepOutcome::Step(step()?)));
                let reason = "the reply holds no step".to_owned();
                outcome.unwrap_or(StepOutcome::Failed { reason })
            }
        },
    }
}

/// Returns the changes with shortened texts. `None` if a body cannot be read.
fn changes_of(dialect: Dialect, sent: &[u8], forwarded: &[u8]) -> Option<Vec<MessageChange>> {
    let read = |body| dialect.read(body).ok();
    let mut changes = changed_messages(&read(sent)?, &read(forwarded)?);
    for change in &mut changes {
        change.text = shortened(&change.text);
    }
    Some(changes)
}

/// Returns author and text of the last messages.
fn last_messages(dialect: Dialect, body: &[u8]) -> Vec<(String, String)> {
    let Ok(conversation) = dialect.read(body) else {
        return Vec::new();
    };
    let messages = conversation.messages();
    let from = messages.len().saturating_sub(SHOWN_MESSAGES);
    let shown = messages.get(from..).unwrap_or_default();
    let texts = shown.iter().map(|message| {
        let text = conversation.text(message);
        let calls = call_names(&conversation, message);
        let parts = [&*text, &calls].into_iter().filter(|part| !part.is_empty());
        let text = parts.collect::<Vec<_>>().join("\n");
        (message.role.label().to_owned(), shortened(&text))
    });
    texts.collect()
}

fn call_names(
    conversation: &Conversation<'_>,
    message: &longhaul_core::conversation::Message,
) -> String {
    let body = conversation.body();
    let calls = conversation.calls(message).iter().map(|call| {
        let name = call.name.map(|name| name.decode(body)).unwrap_or_default();
        let arguments = call.arguments.map(|text| text.decode(body));
        format!("{name} {}", arguments.unwrap_or_default())
    });
    calls.collect::<Vec<_>>().join("\n")
}

/// Shortens a text in its middle, where a reader misses the least.
fn shortened(text: &str) -> String {
    let all = text.chars().count();
    if all <= MAX_CHARS {
        return text.to_owned();
    }
    let half = MAX_CHARS / 2;
    let begin: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(all - half).collect();
    format!("{begin}\n[… {} characters …]\n{end}", all - 2 * half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle() {
        let text = format!("{}x{}", "a".repeat(1_000), "é".repeat(1_000));
        let short = shortened(&text);
        assert!(short.starts_with(&"a".repeat(750)) && short.ends_with(&"é".repeat(750)));
        assert!(short.contains("[… 501 characters …]"), "{short}");
        assert_eq!(shortened("short"), "short");
    }
}
