//! Builds the calls that summarise a chat.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::ACCEPT;
use http::request::Parts;

use crate::body::request_body::{RequestBody, TransferMeter};
use crate::chat::attempt::{Attempt, PlanInputs};
use crate::chat::context::{Chat, ChatRequest};
use crate::chat::learn::known_window::{CountedRefusals, KnownWindow};
use crate::chat::summarise::task::SummaryTask;
use crate::config::SummaryStyle;
use crate::exchange::send::upstream_request;
use crate::request::headers::{self, BodyFraming};
use crate::summaries::{CompactionOrder, CostMeter, SummaryJob, SummaryPermit, SummaryTarget};
use crate::traces::CallContext;
use crate::wall_clock;
use longhaul_core::dialect::Dialect;
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::segments::SegmentedText;
use longhaul_core::summary::request::{cached_style_body, provider_style_body};
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::RefusalWindow;

pub(in crate::chat) fn summary_permit(chat: &Chat<'_>, cut: RecordKey) -> SummaryPermit {
    let tokens = chat.request.conversation.tokens();
    let guards = &chat.state().summary_guards;
    guards.permit(chat.request.scope, &chat.prefix_keys, cut, tokens)
}

/// Builds the head of a summary call: with the caller's own credentials, or with those of the
/// summary endpoint if one is configured. If the client's path names the model, that of the call names `model`.
fn summary_head(request: &ChatRequest<'_>, model: Option<&str>) -> Option<(Parts, SummaryTarget)> {
    if let Some(endpoint) = &request.state.summary_endpoint {
        return Some((endpoint.request_head(call_dialect(request)), SummaryTarget::Dedicated));
    }
    let empty = RequestBody::from_bytes(Bytes::new(), &Arc::new(TransferMeter::default()));
    let framing = BodyFraming::Length(0);
    let sent = upstream_request(request.state, request.head, request.route, empty, framing);
    let (mut head, _) = sent.ok()?.into_parts();
    head.headers = headers::for_summary(&head.headers);
    if let Some(path) = Dialect::path_of_own_call(head.uri.path(), model) {
        let query = head.uri.query().map_or_else(String::new, |query| format!("?{query}"));
        head.uri = request.state.config.upstream.base.url_of(path + &query).ok()?;
        head.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    }
    Some((head, SummaryTarget::Conversation))
}

/// Returns the dialect of summary calls: that of the endpoint if one is configured, else that of the
/// conversation.
fn call_dialect(request: &ChatRequest<'_>) -> Dialect {
    let dialect = request.conversation.dialect();
    let endpoint = request.state.summary_endpoint.as_ref();
    endpoint.map_or(dialect, |endpoint| endpoint.api.for_conversation(dialect))
}

/// Returns the summarising model and its window. The name is `None` for the conversation's own
/// model.
fn summariser(chat: &Chat<'_>, inputs: &PlanInputs) -> (Option<String>, Tokens) {
    let state = chat.state();
    let set = state.config.summary.window;
    let name = state.config.summary.model.name();
    let window = || match name {
        Some(name) => {
            let sources = KnownWindow::of_model(chat, name).sources(CountedRefusals::Model);
            sources.policy(&chat.settings).thresholds.window
        }
        None => inputs.policy.thresholds.window,
    };
    (name.map(str::to_owned), set.unwrap_or_else(window))
}

fn summary_model<'c>(chat: &'c Chat<'_>) -> &'c str {
    chat.state().config.summary.model.name().unwrap_or(&chat.model)
}

/// Returns the style of summary calls for a request: `cached` for a login that allows no other
/// requests than those of the live conversation.
pub(in crate::chat) fn summary_style(request: &ChatRequest<'_>) -> SummaryStyle {
    if allows_cached_style_only(request) {
        return SummaryStyle::Cached;
    }
    request.state.config.summary.style
}

/// Whether calls of longhaul would carry a login of Claude. Such a login serves only requests like those
/// of the live conversation.
fn allows_cached_style_only(request: &ChatRequest<'_>) -> bool {
    let has_endpoint = request.state.summary_endpoint.is_some();
    !has_endpoint && headers::bears_client_login(&request.head.headers)
}

/// Builds the body of a summary call in `cached` style, which repeats the conversation as
/// forwarded. Returns `None` if the style is not configured or not possible.
pub(super) fn cached_body(chat: &Chat<'_>, attempt: &Attempt, covers: usize) -> Option<String> {
    let summary = &chat.state().config.summary;
    let (inputs, conversation) = (&attempt.inputs, chat.request.conversation);
    if summary_style(&chat.request) != SummaryStyle::Cached {
        return None;
    }
    let forwarded = forwarded_body(chat, attempt)?;
    let (policy, prompts) = (&inputs.policy, &summary.prompts);
    cached_style_body(conversation, &forwarded, covers, policy, prompts)
}

/// Returns the body that was forwarded as `attempt`. `None` if a newer record than the one in the body is known:
/// the next segment would not follow the text of that record.
fn forwarded_body<'c>(chat: &Chat<'c>, attempt: &Attempt) -> Option<Cow<'c, str>> {
    let conversation = chat.request.conversation;
    let shown = attempt.view().summary().map(SegmentedText::as_arc);
    let base = attempt.inputs.prior_records.newest();
    if shown != base.and_then(|base| base.record.text.as_ref()) {
        return None;
    }
    let Some(plan) = attempt.view().replacements(conversation) else {
        return Some(conversation.body().into());
    };
    String::from_utf8(Splice::new(conversation, &plan)?.apply()).ok().map(Cow::Owned)
}

/// Builds the order to the provider to compact the messages before `covers`, or somewhat fewer. Also returns
/// their number. `None` if the provider writes no summaries, or was set aside.
pub(super) fn provider_order(
    chat: &Chat<'_>,
    attempt: &Attempt,
    covers: usize,
) -> Option<(usize, CompactionOrder)> {
    if !chat.settings.by_provider
        || chat.learned.refuted.is_refuted(chat.learned.compaction_of(&chat.model))
    {
        return None;
    }
    let (inputs, conversation) = (&attempt.inputs, chat.request.conversation);
    let base = inputs.prior_records.newest();
    let pinned = PinnedHead::new(conversation, &inputs.policy, base).end;
    let cut = conversation.provider_cut(pinned, covers)?;
    if cut <= attempt.view().summarised_until() {
        return None;
    }
    let forwarded = forwarded_body(chat, attempt)?;
    let restated = attempt.view().restated_words(conversation).and_then(|(at, _)| at);
    let messages = conversation.messages().len();
    let behind = messages.checked_sub(cut)? + usize::from(restated >= Some(cut));
    let dialect = conversation.dialect();
    let body = provider_style_body(dialect, &forwarded, behind, &inputs.policy)?;
    Some((cut, CompactionOrder { body, from: conversation.provider_item_from(pinned) }))
}

pub(super) fn job(
    chat: &Chat<'_>,
    inputs: &PlanInputs,
    covers: usize,
    calls: usize,
) -> Option<SummaryJob> {
    let state = chat.state();
    let (model, window) = summariser(chat, inputs);
    let (head, place) = summary_head(&chat.request, model.as_deref())?;
    let (policy, known) = (&inputs.policy, &inputs.prior_records);
    let (writer, call_dialect) = (summary_model(chat), call_dialect(&chat.request));
    let parent = chat.request.parent.clone();
    let prices = state.config.summary_prices(writer);
    let prices = prices.or_else(|| state.recent.prices.of(writer));
    let cost_meter = CostMeter::new(&state.metrics, prices);
    let cost_meter = cost_meter.paid_by(&state.spending, state.config.caps, chat.payer());
    Some(SummaryJob {
        dialect: chat.request.conversation.dialect(),
        call_dialect,
        body: chat.request.body.text().clone(),
        path: chat.request.head.uri.path().into(),
        head,
        summarised_until: covers,
        // The next summary extends the newest one, whether or not that is in use.
        base_record: known.newest().cloned(),
        policy: policy.clone(),
        prompts: state.config.summary.prompts.clone(),
        model,
        window,
        target: place,
        cached_style_body: None,
        order: None,
        cost_meter: Arc::new(cost_meter),
        call_context: parent.map(|parent| CallContext::new(parent, call_dialect, writer)),
        max_calls: calls,
        // A limit in provider tokens is rescaled for each call.
        learned_window: match KnownWindow::of_chat(chat, inputs.adopted())
            .sources(CountedRefusals::Model)
            .refusal
        {
            Some(RefusalWindow::Estimated(_)) => Some(policy.prune_thresholds.window),
            Some(RefusalWindow::Stated { .. }) | None => None,
        },
        now: wall_clock::unix_seconds(),
        overflow_rules: state.config.overflow_rules.clone(),
        call_overflow: Arc::default(),
    })
}

/// Wraps the job in a task. Returns `None` if the provider would refuse the call for this login. A digest
/// is used instead.
pub(super) fn summary_task(
    chat: &Chat<'_>,
    inputs: &PlanInputs,
    permit: SummaryPermit,
    job: SummaryJob,
) -> Option<SummaryTask> {
    let repeats = job.cached_style_body.is_some() || job.order.is_some();
    if !repeats && allows_cached_style_only(&chat.request) {
        return None;
    }
    let keys = &chat.prefix_keys;
    let record_key = |prefix| keys.record_key(prefix, job.head_dependence());
    let renewal = keys.renewal_key(job.summarised_until);
    let conversation = chat.request.conversation;
    let thrash = inputs.adopted().map(|record| record.thrash).unwrap_or_default();
    Some(SummaryTask {
        state: Arc::clone(chat.request.state),
        permit,
        key: record_key(keys.key_at(job.summarised_until)?)?,
        renewal_key: renewal.and_then(record_key),
        cache_price: chat.settings.cache_price,
        thrash: thrash.after_compaction(conversation, conversation.messages().len()),
        dashboard: chat.dashboard.clone(),
        writer: summary_model(chat).to_owned(),
        learned: Arc::clone(&chat.learned),
        model: chat.model_in_log().into(),
        conversation: chat.conversation_id(),
        _reservation: chat.request.body.reservation(),
        job,
    })
}
