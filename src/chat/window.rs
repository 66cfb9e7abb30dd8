//! Sources for the context window of a chat's model, including a query to the upstream.

use http::StatusCode;

use crate::chat::Chat;
use crate::chat::attempt::PlanInputs;
use crate::config::CHAT;
use crate::learned::reported_windows::query::WindowQuery;
use crate::models;
use crate::models::HostKind;
use crate::request::headers;
use crate::services::Shared;
use longhaul_core::conversation::Conversation;
use longhaul_core::policy::record::CompactionRecord;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::LearnedWindow;
use longhaul_core::window::token_ratio::TokenCalibration;
use longhaul_core::window::{RefusalWindow, WindowSources, expected_ratio, script_ratio};

/// Collects the sources for the window of `model`, for a conversation that starts from `record`.
pub(super) fn window_sources(
    shared: &Shared,
    model: &str,
    record: Option<&CompactionRecord>,
) -> WindowSources {
    let config = &shared.config;
    let conduct = config.settings_for(model);
    let kept = record
        .filter(|record| record.model == model)
        .and_then(|record| record.window);
    WindowSources {
        setting: conduct.configured_window(),
        refusal: kept.map(RefusalWindow::Estimated).or_else(|| {
            let holds = shared
                .knowledge
                .windows
                .observations(model)
                .learned_window();
            holds.map(LearnedWindow::for_other_conversations)
        }),
        reported: shared.knowledge.reported_windows.window(model),
        table: models::look_up(config.upstream.base.authority().host(), model)
            .map(|found| found.limits.table_window()),
        default: conduct.window,
    }
}

/// Collects token counts that show how `model` counts this conversation.
pub(super) fn counts(
    shared: &Shared,
    model: &str,
    conversation: &Conversation<'_>,
    chains: &PrefixKeys,
) -> TokenCalibration {
    let last = shared.store.last_count(chains, model);
    // The average stored with the conversation's last count applies to the conversation on every
    // replica.
    let average = last.and_then(|counted| counted.density);
    TokenCalibration {
        last_sample: last.map(|counted| counted.pair),
        model_ratio: average.or_else(|| shared.knowledge.windows.observations(model).average_ratio),
        text_ratio: match last {
            None => expected_ratio(conversation),
            Some(_) => script_ratio::predict(conversation),
        },
    }
}

impl Chat<'_> {
    /// Returns the tokens that the operator's window leaves for input, corrected by how this
    /// conversation is counted. `None` if the operator set no window.
    pub(super) fn configured_input_limit(&self, basis: &PlanInputs) -> Option<Tokens> {
        let set = self
            .shared()
            .config
            .settings_for(&self.model)
            .configured_window();
        set.map(|_| {
            basis.policy.thresholds.actual_window - self.requested_output().unwrap_or_default()
        })
    }

    /// Collects the sources for the model's window, including the record in use and this
    /// conversation's own refusals.
    pub(super) fn window_sources(&self, record: Option<&CompactionRecord>) -> WindowSources {
        let shared = self.shared();
        let own = shared
            .knowledge
            .windows
            .conversation_window(&self.prefix_keys);
        window_sources(shared, &self.model, record).with_conversation_window(own)
    }

    /// Returns the smallest window that refusals have shown for the model or for this conversation.
    pub(super) fn smallest_refused_window(&self, basis: &PlanInputs) -> Option<Tokens> {
        let shared = self.shared();
        let windows = &shared.knowledge.windows;
        let own = self.window_sources(basis.adopted());
        let others = windows
            .observations(&self.model)
            .learned_window()
            .map(LearnedWindow::for_other_conversations);
        let shown = own.refusal.into_iter().chain(others);
        shown.map(RefusalWindow::tokens).min()
    }

    /// Whether the model's window is only assumed, because no source states it.
    pub(super) fn window_is_assumed(&self, basis: &PlanInputs) -> bool {
        self.window_sources(basis.adopted()).is_assumed()
    }

    /// Queries the upstream for the window of this chat's model after a reply with `status`.
    /// Skipped if a better source exists or the upstream was queried recently.
    pub(crate) fn query_upstream_window(&self, status: StatusCode) {
        let shared = self.shared();
        let config = &shared.config;
        let asks = config.upstream.query_windows && status.is_success() && !self.model.is_empty();
        if !asks
            || config
                .settings_for(&self.model)
                .configured_window()
                .is_some()
            || shared
                .knowledge
                .windows
                .observations(&self.model)
                .window()
                .is_some()
            || !shared
                .knowledge
                .reported_windows
                .is_due(&self.model, self.request.scope)
        {
            return;
        }
        // For a deployment, the path selects the model, whatever name is in the body.
        let path = self.request.route.mapped.path();
        let Some(prefix) = path
            .strip_suffix(CHAT)
            .filter(|prefix| !prefix.contains("/deployments/"))
        else {
            return;
        };
        let base = &config.upstream.base;
        let question = WindowQuery {
            model: self.model.clone(),
            scheme: base.scheme().clone(),
            authority: base.authority().clone(),
            host_kind: HostKind::from_host(base.authority().host()),
            models_path: format!("{prefix}/models"),
            headers: shared.keys.replace_credentials(
                self.request.head,
                headers::for_model_query(&self.request.head.headers, base.host()),
            ),
        };
        shared.knowledge.reported_windows.query_in_background(
            question,
            self.request.scope,
            &shared.upstream,
        );
    }
}
