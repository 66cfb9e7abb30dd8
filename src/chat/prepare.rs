//! First step: from a parsed request to a chat with its settings, and the inputs of its plan.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;

use crate::chat::attempt::PlanInputs;
use crate::chat::context::{Chat, ChatRequest};
use crate::chat::learn::{known_window, thinking};
use crate::chat::summarise::call;
use crate::chat::{keep, provider, recall, summarise};
use crate::config::{Mode, PlacementSetting, SummaryStyle};
use crate::dashboard::{DashboardHandle, DashboardRequest};
use crate::learned::learned_models::{LearnedModels, QueryKey};
use crate::proxy_state::ProxyState;
use crate::request::overrides::{CompactionOverride, RequestOverrides};
use crate::request::receive::read_dialect;
use crate::request::{caller_identity, headers};
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::dialect::compress_api::SentPart;
use longhaul_core::dialect::thinking_binding::ThinkingBinding;
use longhaul_core::policy::cache_price::CachePrice;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::policy::{CompactionSettings, Profile, PruneTrigger};
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;

/// Parses a chat body, unless the request must be forwarded unchanged. The error is the reason for
/// forwarding the request unchanged.
pub(crate) fn read<'b>(
    state: &ProxyState,
    head: &Parts,
    body: &'b Bytes,
    scope: Scope,
) -> Result<Conversation<'b>, Bypass> {
    if headers::is_signed(&head.headers) {
        return Err(Bypass::Signed);
    }
    let dialect = read_dialect(&head.method, head.uri.path()).ok_or(Bypass::Shape)?;
    let read = dialect.read_cached(body, scope, state.parse_caches.for_caller(scope))?;
    read.at_path(head.uri.path())
}

/// Builds a chat and its plan inputs, after refreshing stored facts from other processes. Registers the
/// conversation on the dashboard.
pub(crate) async fn prepare(request: ChatRequest<'_>) -> (Chat<'_>, PlanInputs) {
    let (mut chat, inputs) = prepare_unregistered(request).await;
    chat.dashboard = register_on_dashboard(&chat, &inputs);
    chat.compact_now |= chat.dashboard.as_ref().is_some_and(|it| it.compacts);
    (chat, inputs)
}

/// Like [`prepare`], without the dashboard.
pub(crate) async fn prepare_unregistered(request: ChatRequest<'_>) -> (Chat<'_>, PlanInputs) {
    let state = request.state;
    let overrides = request.overrides;
    let model: Arc<str> = request.conversation.model().into();
    let prefix_keys = prefix_keys(&request);
    let query_key =
        if state.keys.holds_upstream_key() { QueryKey::Longhaul } else { QueryKey::Caller };
    let learned = state.learned.of_caller(request.scope, query_key);
    let refreshed = state.store.refresh_all(&prefix_keys, &learned, &model);
    refreshed.await;
    let prior_records = provider::prior_records(&request, &prefix_keys);
    let adopted = prior_records.adopted.as_ref().map(|found| &*found.record);
    let mut settings = effective_settings(state, &learned, overrides, &model, &prefix_keys);
    settings.by_provider = provider::writes_summaries(&request);
    if request.from_gateway.is_some_and(|sent| sent.part == SentPart::Results) {
        // Every message stays in its place: results are cleared at the hard threshold alone.
        (settings.proactive, settings.prune_trigger) = (false, Some(PruneTrigger::HardThreshold));
        (settings.minimum, settings.user_turns) = (Some(Tokens::ZERO), Some(0));
    }
    // An edit of a result costs the reasoning behind the result. The provider's compaction costs none.
    let is_bound = request.conversation.thinking_binding() != ThinkingBinding::Never
        || learned.binding_models.contains(&model);
    settings.prune &= !(settings.by_provider && is_bound);
    settings.cache_price = cache_price(state, &settings, &model, adopted);
    keep::add_kept_texts(&mut settings, &request, &prefix_keys);
    settings.recall = recall::link(&request, &prefix_keys, &prior_records);
    let chat = Chat {
        mode: state.mode(overrides),
        compact_now: overrides.compaction == Some(CompactionOverride::Now),
        settings,
        table_window: state.config.table_window(&model),
        request,
        prefix_keys,
        model,
        learned,
        dashboard: None,
    };
    let inputs = plan_inputs(&chat, prior_records);
    (chat, inputs)
}

/// Hashes the prefixes of the conversation. Only a call in the `cached` style, or to the provider's compaction,
/// shows the leading messages, so only then can a record depend on them.
fn prefix_keys(request: &ChatRequest<'_>) -> PrefixKeys {
    let keys = PrefixKeys::new(request.conversation, request.scope);
    let agent = caller_identity::agent_session(&request.head.headers);
    let keys = keys.of_agent(request.scope, &agent);
    match call::summary_style(request) {
        SummaryStyle::Transcript if !provider::writes_summaries(request) => keys,
        SummaryStyle::Cached | SummaryStyle::Transcript => {
            keys.with_head(request.conversation, request.scope)
        }
    }
}

/// Computes the settings for this request: the operator's settings for `model`, restricted by the
/// request's own overrides.
fn effective_settings(
    state: &ProxyState,
    learned: &LearnedModels,
    overrides: RequestOverrides,
    model: &str,
    prefix_keys: &PrefixKeys,
) -> CompactionSettings {
    let mut settings = state.config.settings_for(model).compaction.into_owned();
    settings.prune &= !overrides.no_prune;
    if overrides.compaction == Some(CompactionOverride::Off) {
        settings.proactive = false;
        settings.recover = false;
    }
    if state.config.summary.placement == PlacementSetting::Auto {
        settings.placement = learned.placements.placement_for(model, prefix_keys.first_key());
    }
    settings
}

fn register_on_dashboard(chat: &Chat<'_>, inputs: &PlanInputs) -> Option<DashboardHandle> {
    let state = chat.state();
    let summary = inputs.adopted().and_then(|record| record.text.clone());
    // Shadow mode shows what it would have saved.
    let price = || {
        let set = || state.recent.prices.of(&chat.model);
        state.config.prices(&chat.model).or_else(set)?.cached
    };
    state.recent.record_request(DashboardRequest {
        conversation: chat.request.conversation,
        prefix_keys: &chat.prefix_keys,
        window: inputs.policy.thresholds.window,
        summary: summary.filter(|_| state.config.admin_show_content),
        may_compact: chat.mode == Mode::On && chat.request.overrides.compaction.is_none(),
        cached_price: (chat.mode == Mode::Shadow).then(price).flatten(),
        agent: caller_identity::agent_product(&chat.request.head.headers),
        session: caller_identity::shown_session(&chat.request.head.headers),
        caller: caller_identity::pseudonym(chat.request.scope),
    })
}

/// Returns the price class of the provider's cache: the operator's, that of the conversation's
/// record, or that of the list price. `None` if none is known, or if the profile does not use it.
fn cache_price(
    state: &ProxyState,
    settings: &CompactionSettings,
    model: &str,
    adopted: Option<&CompactionRecord>,
) -> Option<CachePrice> {
    if settings.profile != Profile::Frugal {
        return None;
    }
    let kept = || adopted.and_then(|record| record.cache_price);
    let listed = || Some(state.config.prices(model)?.cache_price());
    settings.cache_price.or_else(kept).or_else(listed)
}

/// Builds the policy from the prior records of this conversation.
fn plan_inputs(chat: &Chat<'_>, prior_records: PriorRecords) -> PlanInputs {
    let prior_records = PriorRecords {
        pending: summarise::is_being_made(chat, &prior_records),
        thinking: thinking::prior_thinking(chat),
        ..prior_records
    };
    let adopted = prior_records.adopted.as_ref().map(|found| &*found.record);
    PlanInputs { policy: known_window::policy(chat, adopted), prior_records, deadline: None }
}

#[cfg(test)]
mod tests {
    use http::uri::PathAndQuery;

    use super::*;
    use crate::config::Config;

    fn check(name: &str, value: &str, expect: Option<Bypass>) {
        let request = http::Request::post("/v1/chat/completions").header(name, value);
        let (head, ()) = request.body(()).unwrap().into_parts();
        let body = Bytes::from_static(br#"{"messages":[{"role":"user","content":"hi"}]}"#);
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        let state = ProxyState::new(config).unwrap();
        let path = PathAndQuery::from_static("/v1/chat/completions");
        let read = read(&state, &head, &body, state.scope(&path, &head));
        assert_eq!(read.err(), expect, "{name}: {value}");
    }

    #[tokio::test]
    async fn signed_body_is_bypassed() {
        check("content-digest", "sha-256=:x:", Some(Bypass::Signed));
        check("digest", "SHA-256=x", Some(Bypass::Signed));
        check("authorization", "AWS4-HMAC-SHA256 Credential=x", Some(Bypass::Signed));
        check("authorization", "Bearer x", None);
    }
}
