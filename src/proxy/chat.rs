//! A chat as it came, and what is done with it.

mod attempt;
mod form;
mod making;
#[cfg(test)]
mod met;
mod notices;
mod second;
mod settle;
mod summary;
mod title;
mod unheard;
mod window;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;

use super::exchange::Route;
use super::recent::{DashboardHandle, DashboardRequest};
use super::shared::Shared;
use super::whole::BufferedBody;
use super::wish::{CompactionOverride, RequestOverrides};
use super::{Proxy, headers};
use crate::config::{Mode, PlacementSetting, SummaryModel};
use crate::rewrite::bypass::Bypass;
use crate::rewrite::chain::{PrefixKeys, Scope};
use crate::rewrite::chat_completions;
use crate::rewrite::conversation::Conversation;
use crate::rewrite::plan::SummarySource;
use crate::rewrite::policy::CompactionSettings;
use crate::rewrite::tokens::Tokens;
use crate::traces::ParentContext;
use crate::upstream::TransferMeter;
pub(super) use attempt::{Attempt, PlanInputs};
pub(super) use second::NextStep;

/// Reads a chat's body, unless it must go on as it came.
///
/// # Errors
/// The reason for that.
pub(super) fn read<'b>(
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

/// What came, and who asked.
pub(super) struct ChatRequest<'c> {
    pub(super) proxy: &'c Proxy,
    pub(super) route: &'c Route,
    pub(super) head: &'c Parts,
    pub(super) body: &'c BufferedBody,
    pub(super) conversation: &'c Conversation<'c>,
    pub(super) scope: Scope,
    pub(super) meter: Arc<TransferMeter>,
    /// What calls of ours for it are recorded under, if they are.
    pub(super) parent: Option<ParentContext>,
}

/// One chat. Nothing of it changes: what it is sent by travels with each [`Attempt`].
pub(super) struct Chat<'c> {
    pub(super) request: ChatRequest<'c>,
    mode: Mode,
    compact_now: bool,
    prefix_keys: PrefixKeys,
    model: String,
    settings: CompactionSettings,
    /// Itself among the conversations that are shown.
    pub(super) dashboard: Option<DashboardHandle>,
}

impl<'c> Chat<'c> {
    /// A chat, and what it is planned by, once others were asked what they know of it.
    pub(super) async fn prepare(came: ChatRequest<'c>) -> (Self, PlanInputs) {
        let shared = &*came.proxy.0;
        let wish = RequestOverrides::from_headers(&came.head.headers);
        let model = came.conversation.model().into_owned();
        let chains = PrefixKeys::new(came.conversation, came.scope);
        shared.knowledge.refresh(&chains, &model).await;
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

    /// Takes it in among the conversations that are shown.
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

    /// Whether replies are held back to see what they are.
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
            // A shadow asks nobody: a summary is a paid call.
            (Mode::Off | Mode::Shadow, _) | (Mode::On, SummaryModel::Disabled) => {
                SummarySource::Digest
            }
            (Mode::On, SummaryModel::Named(_) | SummaryModel::SameAsConversation) => {
                SummarySource::Model
            }
        }
    }
}

/// What the operator asks for with this model, less what the request itself does not want.
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
