//! Writes summaries: asks the model, judges the answer, and makes a record of it.
//!
//! A summary is a paid call with the caller's key, so there is one job for each record at a time,
//! whoever waits for it, and none that nobody would use.

mod desk;
mod endpoint;
mod guard;
mod paid_call;
mod reply;
mod till;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Request, StatusCode};
use tokio::time::timeout;

pub(crate) use desk::{Desk, Waiter};
pub(crate) use endpoint::Endpoint;
pub(crate) use guard::{Guards, Health, Ticket, Times, is_too_busy};
use paid_call::PaidCall;
pub(crate) use till::Till;

use crate::metrics::{Label as _, Summary as Outcome};
use crate::rewrite::brief::{Brief, Frame, Previous, Summariser};
use crate::rewrite::chat_completions;
use crate::rewrite::conversation::Conversation;
use crate::rewrite::cut_point::Kept;
use crate::rewrite::digest::budgets;
use crate::rewrite::policy::Policy;
use crate::rewrite::prompts::Prompts;
use crate::rewrite::record::{Found, Record};
use crate::rewrite::sse::Finish;
use crate::rewrite::summary::{self, Prose, Refusal};
use crate::rewrite::title::{self, Title};
use crate::rewrite::tokens::Tokens;
use crate::rewrite::wording;
use crate::traces::Origin;
use crate::upstream::{Meter, Outgoing, Upstream};

/// The longest that one call may take: long enough for a model that reasons, and an end to one
/// that hangs (a client's own deadline is shorter, and it does not wait this long).
pub(crate) const CALL: Duration = Duration::from_mins(2);

/// One summary to be written.
pub(crate) struct Job {
    /// The client's request as it came; the task reads it again, for it outlives the request.
    pub(crate) body: Bytes,
    /// The request's head as the upstream gets it, with the caller's credentials.
    pub(crate) head: Parts,
    /// The summary stands for what is before this message.
    pub(crate) covers: usize,
    /// The record that the conversation starts from.
    pub(crate) base: Option<Found>,
    /// The budgets and what is kept.
    pub(crate) policy: Policy,
    /// What is asked.
    pub(crate) prompts: Prompts,
    /// The model to ask; the conversation's own if there is none.
    pub(crate) model: Option<String>,
    /// What that model holds.
    pub(crate) window: Tokens,
    /// Whether it is asked elsewhere than the conversation.
    pub(crate) place: Place,
    /// The body of the one call to make, where the live conversation is repeated.
    pub(crate) live: Option<String>,
    /// Where its calls are paid.
    pub(crate) till: Arc<Till>,
    /// Where they are recorded, if they are.
    pub(crate) origin: Option<Origin>,
    /// How many calls may be made.
    pub(crate) calls: usize,
    /// The policy window that a refusal has shown, to be kept with the record.
    pub(crate) learned: Option<Tokens>,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// Where a summary is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// At an endpoint of its own.
    Elsewhere,
    /// Where the conversation is.
    Upstream,
}

/// Why there is no summary. Never the client's to see: the request goes on without one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// The answer was no summary.
    NotASummary(Refusal),
    /// There is nothing to tell, or no room to tell it in. No failure of the summariser's.
    NothingToAsk,
    /// No call came through, or one broke off.
    Unreachable,
    /// The upstream refused the call with this status, or said so under that of an answer.
    Refused(StatusCode),
    /// The answer took too long.
    TimedOut,
}

impl Failure {
    /// Its name in logs.
    pub(crate) fn label(self) -> &'static str {
        self.outcome().label()
    }

    /// The status that refused the call, if one did.
    pub(crate) fn status(self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.as_u16()),
            Self::NotASummary(_) | Self::NothingToAsk | Self::TimedOut | Self::Unreachable => None,
        }
    }

    /// What is counted of it.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::NotASummary(refusal) => match refusal {
                Refusal::CutOff => Outcome::CutOff,
                Refusal::Empty => Outcome::Empty,
                Refusal::NotSmaller => Outcome::NotSmaller,
                Refusal::NothingSaid => Outcome::NothingSaid,
                Refusal::ToolCalls => Outcome::ToolCalls,
                Refusal::TooLong => Outcome::TooLong,
                Refusal::Unformed => Outcome::Unformed,
            },
            Self::NothingToAsk => Outcome::NothingToAsk,
            Self::Refused(_) => Outcome::Refused,
            Self::TimedOut => Outcome::TimedOut,
            Self::Unreachable => Outcome::Unreachable,
        }
    }
}

/// Writes the summary of `job`. Dropping the future closes the upstream's connection.
///
/// # Errors
/// Why there is none. Nothing half-made is ever returned.
pub(crate) async fn write(job: &Job, upstream: &Upstream) -> Result<Record, Failure> {
    let conversation = chat_completions::read(&job.body).map_err(|_| Failure::NothingToAsk)?;
    let kept = Kept::of(&conversation, &job.policy, job.base.as_ref());
    let covered = kept.end..job.covers;
    let replaced = conversation.tokens_of(covered.clone());
    let budgets = &budgets(&conversation, &job.policy, covered.clone());
    let base = job.base.as_ref().map(|base| &base.record);
    let prose = match &job.live {
        Some(body) => call(job, upstream, body.clone(), replaced).await?,
        None => fold(job, upstream, &conversation, covered.clone()).await?,
    };
    let text = wording::wrap(&summary::compose(&prose, &conversation, covered, budgets));
    let after = Tokens::of_text(&text);
    if after >= replaced {
        return Err(Failure::NotASummary(Refusal::NotSmaller));
    }
    Ok(Record {
        text: Some(text.into()),
        summary: Some(prose.as_str().into()),
        previous_summary: base.and_then(|base| base.summary.clone()),
        head: conversation.head(),
        history_from: kept.end,
        compacted_message_count: job.covers,
        // Of these only a first message that is kept still stands.
        images_before: base.map_or(0, |base| base.images_before.min(job.covers)),
        window: job.learned.or_else(|| base.and_then(|base| base.window)),
        tokens_before: conversation.tokens(),
        tokens_after: conversation.tokens() - replaced + after,
        compaction_count: base.map_or(0, |base| base.compaction_count) + 1,
        model: conversation.model().into_owned(),
        last_compacted_at: job.now,
        ..Record::default()
    })
}

/// The summary of a transcript of the messages `covered`, part by part: each call carries on from
/// what the one before it answered.
async fn fold(
    job: &Job,
    upstream: &Upstream,
    conversation: &Conversation<'_>,
    covered: Range<usize>,
) -> Result<Prose, Failure> {
    let replaced = conversation.tokens_of(covered.clone());
    let base = job.base.as_ref().map(|base| &base.record);
    let previous = base.and_then(|base| {
        let text = base.summary.as_deref()?;
        Some(Previous {
            text,
            covers: base.compacted_message_count,
            count: base.compaction_count,
        })
    });
    let summariser = Summariser {
        window: job.window,
        calls: job.calls,
    };
    let budgets = &job.policy.budgets;
    let brief = Brief::new(
        conversation,
        covered,
        previous,
        budgets,
        &job.prompts,
        summariser,
    )
    .ok_or(Failure::NothingToAsk)?;
    let frame = Frame::of(conversation, job.model.as_deref());
    let frame = match job.place {
        Place::Elsewhere => frame.elsewhere(),
        Place::Upstream => frame,
    };
    let mut prose: Option<Prose> = None;
    for part in 0..brief.parts.len() {
        let running = prose.as_ref().map(Prose::as_str);
        let body = brief.request(part, running, &frame);
        prose = Some(call(job, upstream, body, replaced).await?);
    }
    prose.ok_or(Failure::NothingToAsk)
}

/// One call, and the judgement of its answer.
async fn call(
    job: &Job,
    upstream: &Upstream,
    body: String,
    replaced: Tokens,
) -> Result<Prose, Failure> {
    let origin = job.origin.as_ref();
    let answer = timeout(CALL, ask(upstream, &job.head, body, &job.till, origin))
        .await
        .map_err(|_| Failure::TimedOut)??;
    let budgets = &job.policy.budgets;
    let accepted = summary::accept(&answer.text, answer.finish, &job.prompts, budgets, replaced);
    accepted.map_err(Failure::NotASummary)
}

/// Asks for a title with this request body. None for an answer that is none: nobody is told.
///
/// # Errors
/// There was no answer.
pub(crate) async fn title(
    upstream: &Upstream,
    head: &Parts,
    body: String,
    till: &Till,
    origin: Option<&Origin>,
) -> Result<Option<Title>, Failure> {
    let answer = timeout(CALL, ask(upstream, head, body, till, origin))
        .await
        .map_err(|_| Failure::TimedOut)??;
    let read = || title::read(&answer.text);
    Ok((answer.finish == Finish::Stop).then(read).flatten())
}

/// Scheme, host and port of whom is asked.
fn origin_of<B>(request: &Request<B>) -> String {
    let scheme = request.uri().scheme_str().unwrap_or_default();
    let authority = request.uri().authority().map_or("", Authority::as_str);
    format!("{scheme}://{authority}")
}

/// Sends one call and reads its answer.
async fn ask(
    upstream: &Upstream,
    head: &Parts,
    body: String,
    till: &Till,
    origin: Option<&Origin>,
) -> Result<reply::Answer, Failure> {
    let body = Bytes::from(body);
    let mut head = head.clone();
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let request = Request::from_parts(head, Outgoing::whole(body, &Arc::new(Meter::default())));
    let place = origin_of(&request);
    let attempt = origin.and_then(|origin| origin.attempt(&request));
    let mut asked = PaidCall::new(till, attempt);
    let reply = match upstream.send(request).await {
        Ok(reply) => reply,
        Err(fault) => {
            tracing::warn!(
                "a call for a summary or a title did not get through: {}",
                fault.message(&place)
            );
            asked.unreachable(fault);
            return Err(Failure::Unreachable);
        }
    };
    asked.replied(reply.status());
    let answer = reply::read(reply).await;
    match &answer {
        Ok(answer) => asked.answered(answer.usage.as_ref()),
        Err(Failure::Refused(_)) => asked.refused(),
        Err(
            Failure::NotASummary(_)
            | Failure::NothingToAsk
            | Failure::TimedOut
            | Failure::Unreachable,
        ) => asked.broke_off(),
    }
    answer
}
