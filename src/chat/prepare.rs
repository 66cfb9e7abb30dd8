//! First step: from a parsed request to a chat with its settings, and the inputs of its plan.

use std::sync::Arc;

use crate::chat::attempt::PlanInputs;
use crate::chat::{Chat, ChatRequest, recall, summary, summary_call, thinking, window};
use crate::config::{PlacementSetting, SummaryStyle};
use crate::dashboard::{DashboardHandle, DashboardRequest};
use crate::learned::model_knowledge::{ModelKnowledge, QueryKey};
use crate::request::caller_identity;
use crate::request::overrides::{CompactionOverride, RequestOverrides};
use crate::services::Services;
use longhaul_core::policy::cache_price::CachePrice;
use longhaul_core::policy::record::{CompactionRecord, PriorRecords};
use longhaul_core::policy::{CompactionSettings, Profile};
use longhaul_core::prefix::keys::PrefixKeys;

/// Builds a chat and its plan inputs, after refreshing stored facts from other processes. Registers the
/// conversation on the dashboard.
pub(crate) async fn prepare(request: ChatRequest<'_>) -> (Chat<'_>, PlanInputs) {
    let (mut chat, inputs) = prepare_unregistered(request).await;
    chat.dashboard = register_on_dashboard(&chat, &inputs);
    (chat, inputs)
}

/// Like [`prepare`], without the dashboard.
pub(crate) async fn prepare_unregistered(request: ChatRequest<'_>) -> (Chat<'_>, PlanInputs) {
    let services = request.services;
    let overrides = request.overrides;
    let model: Arc<str> = request.conversation.model().into();
    let prefix_keys = prefix_keys(&request);
    let query_key = if services.keys.holds_upstream_key() {
        QueryKey::Longhaul
    } else {
        QueryKey::Caller
    };
    let knowledge = services.knowledge.of_caller(request.scope, query_key);
    services
        .store
        .refresh_all(&prefix_keys, &knowledge, &model)
        .await;
    let prior_records = services.store.prior_records(&prefix_keys);
    let adopted = prior_records.adopted.as_ref().map(|found| &*found.record);
    let mut settings = effective_settings(services, &knowledge, overrides, &model, &prefix_keys);
    settings.cache_price = cache_price(services, &settings, &model, adopted);
    settings.recall = recall::link(&request, &prefix_keys, &prior_records);
    let chat = Chat {
        mode: services.mode(overrides),
        compact_now: overrides.compaction == Some(CompactionOverride::Now),
        settings,
        table_window: services.config.table_window(&model),
        request,
        prefix_keys,
        model,
        knowledge,
        dashboard: None,
    };
    let inputs = plan_inputs(&chat, prior_records);
    (chat, inputs)
}

/// Hashes the prefixes of the conversation. Only a call in the `cached` style shows the leading
/// messages, so only with that style can a record depend on them.
fn prefix_keys(request: &ChatRequest<'_>) -> PrefixKeys {
    let keys = PrefixKeys::new(request.conversation, request.scope);
    let agent = caller_identity::agent_session(&request.head.headers);
    let keys = keys.of_agent(request.scope, &agent);
    match summary_call::summary_style(request) {
        SummaryStyle::Cached => keys.with_head(request.conversation, request.scope),
        SummaryStyle::Transcript => keys,
    }
}

/// Computes the settings for this request: the operator's settings for `model`, restricted by the
/// request's own overrides.
fn effective_settings(
    services: &Services,
    knowledge: &ModelKnowledge,
    overrides: RequestOverrides,
    model: &str,
    prefix_keys: &PrefixKeys,
) -> CompactionSettings {
    let mut settings = services.config.settings_for(model).compaction.into_owned();
    settings.prune &= !overrides.no_prune;
    if overrides.compaction == Some(CompactionOverride::Off) {
        settings.proactive = false;
        settings.recover = false;
    }
    if services.config.summary.placement == PlacementSetting::Auto {
        settings.placement = knowledge
            .placements
            .placement_for(model, prefix_keys.first_key());
    }
    settings
}

/// Registers the conversation on the dashboard.
fn register_on_dashboard(chat: &Chat<'_>, inputs: &PlanInputs) -> Option<DashboardHandle> {
    let services = chat.services();
    let summary = inputs.adopted().and_then(|record| record.text.clone());
    services.recent.record_request(&DashboardRequest {
        conversation: chat.request.conversation,
        prefix_keys: &chat.prefix_keys,
        window: inputs.policy.thresholds.window,
        summary: summary.filter(|_| services.config.admin_show_content),
        agent: caller_identity::agent_product(&chat.request.head.headers),
        caller: caller_identity::pseudonym(chat.request.scope),
    })
}

/// Returns the price class of the provider's cache: the operator's, that of the conversation's
/// record, or that of the list price. `None` if none is known, or if the profile does not use it.
fn cache_price(
    services: &Services,
    settings: &CompactionSettings,
    model: &str,
    adopted: Option<&CompactionRecord>,
) -> Option<CachePrice> {
    if settings.profile != Profile::Frugal {
        return None;
    }
    let kept = || adopted.and_then(|record| record.cache_price);
    let listed = || {
        services
            .config
            .prices(model)
            .map(|prices| prices.cache_price())
    };
    settings.cache_price.or_else(kept).or_else(listed)
}

/// Builds the policy from the prior records of this conversation.
fn plan_inputs(chat: &Chat<'_>, prior_records: PriorRecords) -> PlanInputs {
    let prior_records = PriorRecords {
        pending: summary::is_being_made(chat, &prior_records),
        thinking: thinking::prior_thinking(chat),
        ..prior_records
    };
    let adopted = prior_records.adopted.as_ref().map(|found| &*found.record);
    PlanInputs {
        policy: window::policy(chat, adopted),
        prior_records,
        deadline: None,
    }
}
