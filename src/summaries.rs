//! Writes summaries: calls the model, validates its reply and builds a compaction record.
//!
//! A summary is a paid call with the caller's key. So each record has at most one job at a time,
//! which all waiting requests share. A job whose summary no request would use is not started.

mod endpoint;
mod guard;
pub(crate) mod jobs;
pub(crate) mod reply;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode, Uri};
use tokio::time::timeout;

use crate::body::request_body::{RequestBody, TransferMeter};
use crate::config::uri_origin;
pub(crate) use crate::costs::cost_meter::CostMeter;
use crate::error::Fault;
use crate::metrics::{Label as _, SummaryOutcome as Outcome};
use crate::traces::{CallContext, CallSpan, NO_ANSWER};
use crate::upstream::Upstream;
pub(crate) use endpoint::SummaryUpstream;
pub(crate) use guard::{GuardHealth, SummaryGuards, SummaryPermit, is_overload_status};
pub(crate) use jobs::{JobHandle, RunningSummaries};
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::reply::FinishReason;
use longhaul_core::overflow::{
    ClassifierRules, ClassifierStep, Evidence, LimitKind, Overflow, ReplyClassifier, RequestFacts,
    RequestText, Verdict,
};
use longhaul_core::policy::Policy;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::record::{CompactionRecord, ProviderCompaction, RecordMatch};
use longhaul_core::prefix::keys::HeadDependence;
use longhaul_core::summary::digest::summary_budgets;
use longhaul_core::summary::prompts::Prompts;
use longhaul_core::summary::request::{RequestTemplate, SummariserLimits, SummaryRequest};
use longhaul_core::summary::segments::{SegmentPlace, with_segment};
use longhaul_core::summary::{self, SummaryRejection};
use longhaul_core::units::tokens::Tokens;

/// Timeout of one call. Reasoning models need minutes; a call that hangs must still end. Clients
/// with a shorter deadline do not wait this long.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) struct SummaryJob {
    /// The dialect of the client's request.
    pub(crate) dialect: Dialect,
    pub(crate) call_dialect: Dialect,
    /// The client's original request. The task outlives the request and parses this copy again.
    pub(crate) body: Bytes,
    /// The path of that request.
    pub(crate) path: Box<str>,
    /// The head of the request to the upstream, with the caller's credentials.
    pub(crate) head: Parts,
    /// Index of the first message that the summary does not cover.
    pub(crate) summarised_until: usize,
    /// The record that the conversation starts from, if any.
    pub(crate) base_record: Option<RecordMatch>,
    /// The budgets, and the messages to retain verbatim.
    pub(crate) policy: Policy,
    pub(crate) prompts: Prompts,
    /// The model to call; `None` selects the conversation's own model.
    pub(crate) model: Option<String>,
    /// The context window of that model.
    pub(crate) window: Tokens,
    pub(crate) target: SummaryTarget,
    /// The body of the single call in the `cached` style, which repeats the conversation itself.
    pub(crate) cached_style_body: Option<String>,
    /// Order to the provider to compact the history itself, in place of any other call.
    pub(crate) order: Option<CompactionOrder>,
    pub(crate) cost_meter: Arc<CostMeter>,
    /// Trace context of the calls; `None` if they are not traced.
    pub(crate) call_context: Option<CallContext>,
    pub(crate) max_calls: usize,
    /// The policy window learned from a refusal, to store with the record.
    pub(crate) learned_window: Option<Tokens>,
    /// Seconds since 1970.
    pub(crate) now: u64,
    /// The rules by which a refused call is judged.
    pub(crate) overflow_rules: ClassifierRules,
    /// The first call that the upstream refused as too long, if any.
    pub(crate) call_overflow: Arc<OnceLock<CallOverflow>>,
}

/// Order to the provider to compact a history.
pub(crate) struct CompactionOrder {
    pub(crate) body: String,
    /// First message that the item of the reply will replace.
    pub(crate) from: usize,
}

impl SummaryJob {
    /// Returns whether the summary depends on the leading messages: this call shows them, or the
    /// summary extends one whose call did.
    pub(crate) fn head_dependence(&self) -> HeadDependence {
        if self.order.is_some() || self.cached_style_body.is_some() {
            return HeadDependence::Dependent;
        }
        let base = self.base_record.as_ref();
        base.map_or(HeadDependence::Independent, |base| base.record.head_dependence)
    }
}

/// Destination of summary calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SummaryTarget {
    /// The endpoint configured for summaries.
    Dedicated,
    /// The upstream of the conversation.
    Conversation,
}

/// Reason why a summary was not written. Clients never see it: their requests go on without one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SummaryError {
    /// The reply is not an acceptable summary.
    NotASummary(SummaryRejection),
    /// There is nothing to summarise, or no room for it. Not a failure of the summariser.
    NothingToAsk,
    /// No call reached the upstream, or a reply broke off.
    Unreachable,
    /// The upstream refused the call with this status, or reported this status in the body of a
    /// successful reply.
    Refused(StatusCode),
    /// The reply took longer than [`CALL_TIMEOUT`].
    TimedOut,
}

impl SummaryError {
    pub(crate) fn label(self) -> &'static str {
        self.outcome().label()
    }

    /// Returns the status with which the upstream refused the call, if it did.
    pub(crate) fn status(self) -> Option<u16> {
        if let Self::Refused(status) = self { Some(status.as_u16()) } else { None }
    }

    /// Returns the outcome to count in the metrics.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::NotASummary(refusal) => match refusal {
                SummaryRejection::CutOff => Outcome::CutOff,
                SummaryRejection::Empty => Outcome::Empty,
                SummaryRejection::NotSmaller => Outcome::NotSmaller,
                SummaryRejection::NothingSaid => Outcome::NothingSaid,
                SummaryRejection::ToolCalls => Outcome::ToolCalls,
                SummaryRejection::TooLong => Outcome::TooLong,
                SummaryRejection::MissingHeadings => Outcome::Unformed,
            },
            Self::NothingToAsk => Outcome::NothingToAsk,
            Self::Refused(_) => Outcome::Refused,
            Self::TimedOut => Outcome::TimedOut,
            Self::Unreachable => Outcome::Unreachable,
        }
    }
}

/// Writes the summary of `job`. Dropping the future closes the upstream connection. Returns the
/// reason if a complete summary could not be written. If the provider failed, returns the reason with a digest.
pub(crate) async fn write(
    job: &SummaryJob,
    upstream: &Upstream,
) -> Result<(CompactionRecord, Option<SummaryError>), SummaryError> {
    let read = job.dialect.read(&job.body).and_then(|read| read.at_path(&job.path));
    let conversation = read.map_err(|_| SummaryError::NothingToAsk)?;
    let kept = PinnedHead::new(&conversation, &job.policy, job.base_record.as_ref());
    let covered = kept.end..job.summarised_until;
    let budgets = &summary_budgets(&conversation, &job.policy, covered.clone());
    let base = job.base_record.as_ref().map(|base| &base.record);
    let earlier = base.and_then(|base| {
        let until = base.compacted_message_count;
        let text = base.segmented_text().filter(|_| covered.contains(&until))?;
        Some((text, until))
    });
    let mut place = SegmentPlace {
        earlier: earlier.as_ref().map(|(text, until)| (text, *until)),
        covered: covered.clone(),
        retained: covered.end..covered.end,
        said_until: covered.end,
        words: &job.policy.settings.words,
    };
    let replaced = conversation.tokens_of(place.part());
    let (mut provider, mut failure) = (None, None);
    let prose;
    match (&job.order, &job.cached_style_body) {
        (Some(order), _) => {
            let ordered = order_compaction(job, order, &conversation, upstream).await;
            failure = ordered.as_ref().err().copied();
            let (compaction, text) = ordered.unwrap_or_default();
            // A readable compaction covers the earlier text too.
            place.earlier = place.earlier.filter(|_| text.is_none());
            (provider, prose) = (Some(compaction), text);
        }
        (None, Some(body)) => {
            prose = Some(request_summary(job, upstream, body.clone(), replaced).await?);
        }
        (None, None) => {
            prose = Some(summarise_transcript(job, upstream, &conversation, &place).await?);
        }
    }
    let text = with_segment(&conversation, &place, prose.as_deref(), budgets);
    let before = earlier.as_ref().map(|(text, _)| Tokens::estimate_text(text));
    let replaced = before.unwrap_or_default() + replaced;
    let after = Tokens::estimate_text(&text);
    if after >= replaced {
        let too_long = SummaryError::NotASummary(SummaryRejection::NotSmaller);
        return Err(failure.unwrap_or(too_long));
    }
    if let Some(provider) = &mut provider {
        provider.restated = summary::restated_words(&conversation, kept.end, &text, budgets);
    }
    let item = provider.as_ref().filter(|it| it.item.is_some());
    let after = item.map_or(after, |it| it.tokens);
    let history = conversation.tokens_of(covered);
    let record = CompactionRecord {
        provider,
        segments: text.segments().to_vec(),
        form: text.form(),
        text: Some(Arc::clone(text.as_arc())),
        summary: prose.map(Into::into),
        previous_summary: base.and_then(|base| base.summary.clone()),
        head_dependence: job.head_dependence(),
        head: conversation.head_len(),
        history_from: kept.end,
        compacted_message_count: job.summarised_until,
        // Only the images in a pinned first message remain of those in the base record.
        images_before: base.map_or(0, |base| base.images_before.min(job.summarised_until)),
        window: job.learned_window.or_else(|| base.and_then(|base| base.window)),
        tokens_before: conversation.tokens(),
        tokens_after: conversation.tokens() - history + after,
        compaction_count: base.map_or(0, |base| base.compaction_count) + 1,
        model: conversation.model().into_owned(),
        last_compacted_at: job.now,
        ..CompactionRecord::default()
    };
    Ok((record, failure))
}

/// Orders the provider to compact the history. Returns the compaction, and its text if that is a summary by
/// itself. Fails if the reply holds anything but one compaction, shorter than the messages that it replaces.
async fn order_compaction(
    job: &SummaryJob,
    order: &CompactionOrder,
    conversation: &Conversation<'_>,
    upstream: &Upstream,
) -> Result<(ProviderCompaction, Option<String>), SummaryError> {
    let answer = call(job, upstream, Bytes::from(order.body.clone())).await?;
    let refused = |why| Err(SummaryError::NotASummary(why));
    let [item] = &*answer.compactions else {
        let is_cut = matches!(answer.finish, FinishReason::Length | FinishReason::WindowFull);
        return refused(if is_cut { SummaryRejection::CutOff } else { SummaryRejection::Empty });
    };
    let text = job.dialect.text_of_compaction(item);
    let item = job.dialect.compaction_in_place(item);
    let Some(tokens) = job.dialect.tokens_of_compaction(&item) else {
        return refused(SummaryRejection::Empty);
    };
    let covered = order.from..job.summarised_until;
    let replaced = conversation.tokens_of(covered.clone());
    if item.len() >= conversation.bytes_of(covered) || tokens >= replaced {
        return refused(SummaryRejection::NotSmaller);
    }
    // No prompt of longhaul's asked for headings.
    let (prompts, budgets) = (Prompts::new(Some(""), Some("")), &job.policy.budgets);
    let text = text.and_then(|text| {
        summary::accept(&text, FinishReason::Stop, &prompts, budgets, replaced).ok()
    });
    let item = Some(item.into());
    Ok((ProviderCompaction { item, tokens, from: order.from, restated: None }, text))
}

/// Summarises a transcript of the messages `covered` part by part. Each call extends the summary
/// from the previous call.
async fn summarise_transcript(
    job: &SummaryJob,
    upstream: &Upstream,
    conversation: &Conversation<'_>,
    place: &SegmentPlace<'_>,
) -> Result<String, SummaryError> {
    let replaced = conversation.tokens_of(place.part());
    let summariser = SummariserLimits { window: job.window, max_calls: job.max_calls };
    let budgets = &job.policy.budgets;
    let brief = SummaryRequest::new(conversation, place, budgets, &job.prompts, summariser)
        .ok_or(SummaryError::NothingToAsk)?;
    let frame = RequestTemplate::from_request(conversation, job.model.as_deref());
    let frame = match job.target {
        SummaryTarget::Dedicated => frame.for_other_endpoint().in_dialect(job.call_dialect),
        SummaryTarget::Conversation => frame,
    };
    let mut prose: Option<String> = None;
    for part in 0..brief.parts.len() {
        let running = prose.as_deref();
        let body = brief.call_body(part, running, &frame);
        prose = Some(request_summary(job, upstream, body, replaced).await?);
    }
    prose.ok_or(SummaryError::NothingToAsk)
}

/// Makes one call and validates the reply.
async fn request_summary(
    job: &SummaryJob,
    upstream: &Upstream,
    body: String,
    replaced: Tokens,
) -> Result<String, SummaryError> {
    let answer = call(job, upstream, Bytes::from(body)).await?;
    let budgets = &job.policy.budgets;
    let accepted = summary::accept(&answer.text, answer.finish, &job.prompts, budgets, replaced);
    accepted.map_err(SummaryError::NotASummary)
}

/// Makes one call. Learns from a refusal as too long.
async fn call(
    job: &SummaryJob,
    upstream: &Upstream,
    body: Bytes,
) -> Result<reply::SummariserReply, SummaryError> {
    let origin = job.call_context.as_ref();
    let mut refusal = Vec::new();
    let sending = send_call(
        upstream,
        (job.call_dialect, &job.head),
        body.clone(),
        (&job.cost_meter, origin),
        &mut refusal,
    );
    let answered = timeout(CALL_TIMEOUT, sending).await;
    let answered = answered.unwrap_or(Err(SummaryError::TimedOut));
    if let Err(SummaryError::Refused(status)) = answered {
        let target = (job.call_dialect, &job.head.uri);
        let refusal = (status, &*refusal);
        if let Some(overflow) = judge(target, &body, refusal, &job.overflow_rules) {
            // A later call is as large at most.
            let _first = job.call_overflow.set(overflow);
        }
    }
    answered
}

/// Sends one call and reads its reply. If the upstream refuses the call, `refusal` receives the body of
/// the reply. The cost of a call that is dropped before its end is unknown.
async fn send_call(
    upstream: &Upstream,
    (dialect, head): (Dialect, &Parts),
    body: Bytes,
    (meter, origin): (&CostMeter, Option<&CallContext>),
    refusal: &mut Vec<u8>,
) -> Result<reply::SummariserReply, SummaryError> {
    let mut head = head.clone();
    let bytes = body.len();
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    let request = Request::from_parts(
        head,
        RequestBody::from_bytes(body, &Arc::new(TransferMeter::default())),
    );
    let place = uri_origin(request.uri());
    let mut span = origin.and_then(|origin| origin.begin_call(&request));
    let mut metered = meter.start_call(bytes as u64 / BYTES_PER_TOKEN);
    let reply = match upstream.send(request).await {
        Ok(reply) => reply,
        Err(fault) => {
            let message = upstream.failure_message(fault, &place);
            tracing::warn!("summary call failed: {message}");
            fail(span.as_mut(), fault.label());
            metered.finish_free();
            return Err(SummaryError::Unreachable);
        }
    };
    let status = reply.status();
    if let Some(span) = &mut span {
        span.record_status(status);
    }
    if status.is_success() {
        metered.mark_accepted();
    }
    let answer = reply::read(reply, dialect, refusal).await;
    match &answer {
        Ok(answer) => {
            if let Some(span) = &mut span {
                answer.usage.iter().for_each(|usage| span.record_usage(usage));
                span.finish();
            }
            metered.finish_answered(answer.usage.as_ref());
        }
        Err(SummaryError::Refused(_)) => {
            fail(span.as_mut().filter(|_| status.is_success()), NO_ANSWER);
            metered.finish_free();
        }
        // The upstream may charge for a reply that broke off.
        Err(
            SummaryError::NotASummary(_)
            | SummaryError::NothingToAsk
            | SummaryError::TimedOut
            | SummaryError::Unreachable,
        ) => fail(span.as_mut(), Fault::UpstreamBroke.label()),
    }
    answer
}

fn fail(span: Option<&mut CallSpan>, code: &'static str) {
    if let Some(span) = span {
        span.fail(code);
    }
}

/// A summary call that the upstream refused as too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CallOverflow {
    /// Estimated size of the call.
    pub(crate) tokens: Tokens,
    pub(crate) status: StatusCode,
    /// Facts that the refusal states.
    pub(crate) overflow: Overflow,
}

/// Returns the overflow that `refusal`, the body of a reply with `status`, states about `call`.
/// `None` if the refusal states nothing about a window: words alone teach nothing.
fn judge(
    (dialect, target): (Dialect, &Uri),
    call: &Bytes,
    (status, refusal): (StatusCode, &[u8]),
    rules: &ClassifierRules,
) -> Option<CallOverflow> {
    let conversation = dialect.read(call).ok()?;
    let model = conversation.model();
    let tokens = conversation.tokens();
    let facts = RequestFacts {
        tokens: tokens.get(),
        text: RequestText::new(call, target.path()),
        body_tokens: tokens.get(),
        model: &model,
        ..RequestFacts::default()
    };
    let mut classifier = ReplyClassifier::new(dialect, status.as_u16(), rules, Some(facts))?;
    let verdict = match classifier.push(refusal) {
        ClassifierStep::Hold => classifier.finish(),
        ClassifierStep::Settled(verdict) => verdict,
    };
    let Verdict::Overflow(overflow) = verdict else {
        return None;
    };
    let is_window = overflow.evidence == Evidence::Stated && overflow.kind != LimitKind::Request;
    is_window.then_some(CallOverflow { tokens, status, overflow })
}

/// Bytes of a token of English text or code, by which a call counts whose reply states no usage.
const BYTES_PER_TOKEN: u64 = 4;
