//! Sources for the context window of a chat's model, including a query to the upstream.

use http::StatusCode;

use crate::chat::Chat;
use crate::chat::attempt::PlanInputs;
use crate::learned::reported_windows::query::WindowQuery;
use crate::models;
use crate::models::HostKind;
use crate::request::headers;
use crate::services::Services;
use longhaul_core::conversation::Conversation;
use longhaul_core::policy::record::CompactionRecord;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::LearnedWindow;
use longhaul_core::window::token_ratio::TokenCalibration;
use longhaul_core::window::{RefusalWindow, WindowSources, expected_ratio, script_ratio};

/// Collects the sources for the window of `model`, for a conversation that starts from `record`.
pub(super) fn model_window_sources(
    services: &Services,
    model: &str,
    record: Option<&CompactionRecord>,
) -> WindowSources {
    let config = &services.config;
    let settings = config.settings_for(model);
    let kept = record
        .filter(|record| record.model == model)
        .and_then(|record| record.window);
    WindowSources {
        setting: settings.configured_window(),
        refusal: kept.map(RefusalWindow::Estimated).or_else(|| {
            let holds = services
                .knowledge
                .windows
                .observations(model)
                .learned_window();
            holds.map(LearnedWindow::for_other_conversations)
        }),
        reported: services.knowledge.reported_windows.window(model),
        table: models::look_up(config.upstream.base.authority().host(), model)
            .map(|found| found.limits.table_window()),
        default: settings.window,
    }
}

/// Collects token counts that show how `model` counts this conversation.
pub(super) fn counts(
    services: &Services,
    model: &str,
    conversation: &Conversation<'_>,
    prefix_keys: &PrefixKeys,
) -> TokenCalibration {
    let last = services.store.last_count(prefix_keys, model);
    // The average stored with the conversation's last count applies to the conversation on every
    // replica.
    let average = last.and_then(|counted| counted.density);
    TokenCalibration {
        last_sample: last.map(|counted| counted.pair),
        model_ratio: average
            .or_else(|| services.knowledge.windows.observations(model).average_ratio),
        text_ratio: match last {
            None => expected_ratio(conversation),
            Some(_) => script_ratio::predict(conversation),
        },
    }
}

/// Returns the tokens that the operator's window leaves for input, corrected by how this
/// conversation is counted. `None` if the operator set no window.
pub(super) fn configured_input_limit(chat: &Chat<'_>, inputs: &PlanInputs) -> Option<Tokens> {
    let set = chat
        .services()
        .config
        .settings_for(&chat.model)
        .configured_window();
    set.map(|_| {
        inputs.policy.thresholds.actual_window
            - chat
                .request
                .conversation
                .output_tokens()
                .unwrap_or_default()
    })
}

/// Collects the sources for the model's window, including the record in use and this
/// conversation's own refusals.
pub(super) fn window_sources(chat: &Chat<'_>, record: Option<&CompactionRecord>) -> WindowSources {
    let services = chat.services();
    let own = services
        .knowledge
        .windows
        .conversation_window(&chat.prefix_keys);
    model_window_sources(services, &chat.model, record).with_conversation_window(own)
}

/// Returns the smallest window that refusals have shown for the model or for this conversation.
pub(super) fn smallest_refused_window(chat: &Chat<'_>, inputs: &PlanInputs) -> Option<Tokens> {
    let services = chat.services();
    let windows = &services.knowledge.windows;
    let own = window_sources(chat, inputs.adopted());
    let others = windows
        .observations(&chat.model)
        .learned_window()
        .map(LearnedWindow::for_other_conversations);
    let shown = own.refusal.into_iter().chain(others);
    shown.map(RefusalWindow::tokens).min()
}

/// Whether the model's window is only assumed, because no source states it.
pub(super) fn window_is_assumed(chat: &Chat<'_>, inputs: &PlanInputs) -> bool {
    window_sources(chat, inputs.adopted()).is_assumed()
}

/// Queries the upstream for the window of this chat's model after a reply with `status`.
/// Skipped if a better source exists or the upstream was queried recently.
pub(crate) fn query_upstream_window(chat: &Chat<'_>, status: StatusCode) {
    let services = chat.services();
    let config = &services.config;
    let asks = config.upstream.query_windows && status.is_success() && !chat.model.is_empty();
    if !asks
        || config
            .settings_for(&chat.model)
            .configured_window()
            .is_some()
        || services
            .knowledge
            .windows
            .observations(&chat.model)
            .window()
            .is_some()
        || !services
            .knowledge
            .reported_windows
            .is_due(&chat.model, chat.request.scope)
    {
        return;
    }
    // For a deployment, the path selects the model, whatever name is in the body.
    let path = chat.request.route.mapped.path();
    let Some(prefix) = path
        .strip_suffix(chat.request.conversation.dialect().path())
        .filter(|prefix| !prefix.contains("/deployments/"))
    else {
        return;
    };
    let base = &config.upstream.base;
    let question = WindowQuery {
        model: (*chat.model).to_owned(),
        scheme: base.scheme().clone(),
        authority: base.authority().clone(),
        host_kind: HostKind::from_host(base.authority().host()),
        models_path: format!("{prefix}/models"),
        headers: services.keys.replace_credentials(
            chat.request.head,
            headers::for_model_query(&chat.request.head.headers, base.host()),
        ),
    };
    services.knowledge.reported_windows.query_in_background(
        question,
        chat.request.scope,
        &services.upstream,
    );
}
