//! The bodies that the views of a chat produce.

use std::borrow::Cow;

use http::request::Parts;

use crate::chat::attempt::Attempt;
use crate::chat::context::ChatRequest;
use crate::chat::refusal::Retry;
use crate::request::buffered_body::FramedBody;
use crate::request::headers;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::bypass::Bypass;
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
    let spliced = Splice::new(conversation, &plan).and_then(|splice| {
        let sending = request.body.spliced(&splice);
        let strays = splice.corrupted_bytes(sending.body.chunks());
        request.state.metrics.corrupted_bytes.add(strays as u64);
        (strays == 0).then_some(sending)
    });
    if spliced.is_none() {
        tracing::warn!("discarding a rewrite that is not sound");
    }
    spliced.map(Some).ok_or(Bypass::Unsound)
}
