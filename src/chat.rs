//! A chat request: its parsed conversation, its settings, and the steps that serve it.

mod attempt;
mod notices;
pub(crate) mod placement;
pub(crate) mod retry;
mod settle;
mod summary;
pub(crate) mod summary_task;
#[cfg(test)]
pub(crate) mod test_support;
mod title;
pub(crate) mod unanswered_call;
mod window;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;

use crate::body::request_body::TransferMeter;
use crate::config::{Mode, PlacementSetting, SummaryModel};
use crate::dashboard::{DashboardHandle, DashboardRequest};
use crate::exchange::send::Route;
use crate::proxy::Proxy;
use crate::request::buffered_body::BufferedBody;
use crate::request::headers;
use crate::request::overrides::{CompactionOverride, RequestOverrides};
use crate::services::Shared;
use crate::traces::ParentContext;
pub(crate) use attempt::{Attempt, PlanInputs};
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::dialect::chat_completions;
use longhaul_core::planning::plan::SummarySource;
use longhaul_core::policy::CompactionSettings;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;
pub(crate) use retry::NextStep;

/// Parses a chat body, unless the request must be forwarded unchanged.
///
/// # Errors
/// The reason for forwarding the request unchanged.
pub(crate) fn read<'b>(
    shared: &Shared,
    head: &Parts,
    body: &'b Bytes,
    scope: Scope,
) -> Result<Conversation<'b>, Bypass> {
    if headers::is_signed(&head.headers) {
        return Err(Bypass::Signed);
    }
    chat_completions::read_cached(body, scope, &shared.parse_cache)
}

/// A parsed chat request, with the proxy and the route that serve it.
pub(crate) struct ChatRequest<'c> {
    pub(crate) proxy: &'c Proxy,
    pub(crate) route: &'c Route,
    pub(crate) head: &'c Parts,
    pub(crate) body: &'c BufferedBody,
    pub(crate) conversation: &'c Conversation<'c>,
    pub(crate) scope: Scope,
    pub(crate) meter: Arc<TransferMeter>,
    /// Trace parent of the additional calls made for this request. `None` if the calls are not
    /// traced.
    pub(crate) parent: Option<ParentContext>,
}

/// The immutable state of one chat. The inputs and the plan of each send are in its [`Attempt`].
pub(crate) struct Chat<'c> {
    pub(crate) request: ChatRequest<'c>,
    mode: Mode,
    compact_now: bool,
    prefix_keys: PrefixKeys,
    model: String,
    settings: CompactionSettings,
    /// Dashboard entry of this conversation.
    pub(crate) dashboard: Option<DashboardHandle>,
}

impl<'c> Chat<'c> {
    /// Builds a chat and its plan inputs, after refreshing stored facts from other processes.
    pub(crate) async fn prepare(came: ChatRequest<'c>) -> (Self, PlanInputs) {
        let shared = &*came.proxy.0;
        let wish = RequestOverrides::from_headers(&came.head.headers);
        let model = came.conversation.model().into_owned();
        let chains = PrefixKeys::new(came.conversation, came.scope);
        shared
            .store
            .refresh_all(&chains, &shared.knowledge, &model)
            .await;
        let mut chat = Self {
            mode: came.proxy.mode(came.head),
            compact_now: wish.compaction == Some(CompactionOverride::Now),
            settings: effective_settings(shared, wish, &model, &chains),
            request: came,
            prefix_keys: chains,
            model,
            dashboard: None,
        };
        let basis = chat.plan_inputs();
        chat.dashboard = chat.register_on_dashboard(&basis);
        (chat, basis)
    }

    /// Registers the conversation on the dashboard.
    fn register_on_dashboard(&self, basis: &PlanInputs) -> Option<DashboardHandle> {
        let shared = self.shared();
        let summary = basis.adopted().and_then(|record| record.text.clone());
        shared.recent.record_request(&DashboardRequest {
            conversation: self.request.conversation,
            chains: &self.prefix_keys,
            window: basis.policy.thresholds.window,
            summary: summary.filter(|_| shared.config.admin_show_content),
        })
    }

    /// Whether replies are held back to detect overflows.
    fn recovery_enabled(&self) -> bool {
        self.settings.recover && self.mode == Mode::On
    }

    fn shared(&self) -> &'c Shared {
        &self.request.proxy.0
    }

    fn requested_output(&self) -> Option<Tokens> {
        self.request.conversation.output_tokens()
    }

    fn summaries(&self) -> SummarySource {
        match (self.mode, &self.shared().config.summary.model) {
            // Shadow mode requests no summaries: each is a paid call.
            (Mode::Off | Mode::Shadow, _) | (Mode::On, SummaryModel::Disabled) => {
                SummarySource::Digest
            }
            (Mode::On, SummaryModel::Named(_) | SummaryModel::SameAsConversation) => {
                SummarySource::Model
            }
        }
    }
}

/// Computes the settings for this request: the operator's settings for `model`, restricted by the
/// request's own overrides.
fn effective_settings(
    shared: &Shared,
    wish: RequestOverrides,
    model: &str,
    chains: &PrefixKeys,
) -> CompactionSettings {
    let mut wishes = shared.config.settings_for(model).compaction.into_owned();
    wishes.prune &= !wish.no_prune;
    if wish.compaction == Some(CompactionOverride::Off) {
        wishes.proactive = false;
        wishes.recover = false;
    }
    if shared.config.summary.placement == PlacementSetting::Auto {
        wishes.placement = shared
            .knowledge
            .placements
            .placement_for(model, chains.first_key());
    }
    wishes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn check(name: &str, value: &str, expect: Option<Bypass>) {
        let request = http::Request::post("/v1/chat/completions").header(name, value);
        let (head, ()) = request.body(()).unwrap().into_parts();
        let body = Bytes::from_static(br#"{"messages":[{"role":"user","content":"hi"}]}"#);
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        let Proxy(shared) = Proxy::new(config).unwrap();
        let read = read(&shared, &head, &body, shared.scope(&head));
        assert_eq!(read.err(), expect, "{name}: {value}");
    }

    #[tokio::test]
    async fn a_body_that_is_signed_is_left_as_it_is() {
        check("content-digest", "sha-256=:x:", Some(Bypass::Signed));
        check("digest", "SHA-256=x", Some(Bypass::Signed));
        check(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=x",
            Some(Bypass::Signed),
        );
        check("authorization", "Bearer x", None);
    }
}
