//! The bodies that the views of a chat produce.

use std::borrow::Cow;

use http::request::Parts;

use crate::chat::attempt::Attempt;
use crate::chat::context::{Chat, ChatRequest};
use crate::chat::refusal::Retry;
use crate::request::buffered_body::{BufferedBody, FramedBody};
use crate::request::headers;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::overflow::Suspicion;
use longhaul_core::planning::splice::Splice;
use longhaul_core::planning::view::ForwardedView;

/// Builds the retry's body, or `None` if it would equal the refused one or the rewrite is not
/// sound.
pub(crate) fn retry_body(request: &ChatRequest<'_>, second: &Attempt) -> Option<FramedBody> {
    let rewritten = rewritten_body(request, second.view()).ok()?;
    match second.retry {
        // The original may lack thinking that is bound to earlier edits.
        Some(Retry::Original { .. }) => rewritten.or_else(|| Some(request.body.original())),
        _ => rewritten,
    }
}

pub(crate) fn retry_head(head: &Parts) -> Parts {
    let mut head = head.clone();
    head.headers = headers::for_retry(head.headers);
    head
}

/// Returns the head of a request that is sent as `view`: an item of the provider may need a header.
pub(crate) fn head_for<'h>(
    head: &'h Parts,
    dialect: Dialect,
    view: &ForwardedView,
) -> Cow<'h, Parts> {
    let mut head = Cow::Borrowed(head);
    if view.is_by_provider() {
        headers::add_compaction_header(dialect, &mut head.to_mut().headers);
    }
    head
}

/// Builds the body that `view` produces, or `None` if the view changes nothing. Fails if the
/// rewrite is not sound and must not be sent.
pub(super) fn rewritten_body(
    request: &ChatRequest<'_>,
    view: &ForwardedView,
) -> Result<Option<FramedBody>, Bypass> {
    let conversation = request.conversation;
    let Some(plan) = view.replacements(conversation) else {
        return Ok(None);
    };
    let spliced = Splice::new(conversation, &plan);
    let spliced = spliced.and_then(|splice| apply(&splice, request.body, request));
    if spliced.is_none() {
        tracing::warn!("discarding a rewrite that is not sound");
    }
    spliced.map(Some).ok_or(Bypass::Unsound)
}

/// Applies a splice of `body`. `None` if a byte outside its edits changed.
fn apply(splice: &Splice<'_>, body: &BufferedBody, of: &ChatRequest<'_>) -> Option<FramedBody> {
    let sending = body.spliced(splice);
    let strays = splice.corrupted_bytes(sending.body.chunks());
    of.state.metrics.corrupted_bytes.add(strays as u64);
    (strays == 0).then_some(sending)
}

/// Adds cache marks at the hosts that the operator names: to `rewritten`, or else to the client's own body. `None` if
/// the body stays as it is.
pub(super) fn marked_body(chat: &Chat<'_>, rewritten: Option<&FramedBody>) -> Option<FramedBody> {
    let (request, config) = (&chat.request, &chat.state().config);
    let host = config.upstream.base.authority().host();
    let may_mark = config.mark_hosts.iter().any(|it| it.eq_ignore_ascii_case(host))
        && chat.model.to_ascii_lowercase().contains("claude")
        && chat.recovery_enabled()
        && request.from_gateway.is_none()
        && !chat.learned.refuted.is_refuted(Suspicion::CacheMarks);
    may_mark.then_some(())?;
    let text = rewritten.map(|it| it.body.clone().into_bytes());
    let body = request.body.with_text(text.unwrap_or_else(|| request.body.text().clone()));
    let read = request.conversation.dialect().read(body.text()).ok()?;
    apply(&Splice::with_cache_marks(&read)?, &body, request)
}
