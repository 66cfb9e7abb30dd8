//! A chat request and its parsed conversation, with what every step reads.

use std::sync::Arc;

use http::request::Parts;

use crate::body::request_body::TransferMeter;
use crate::config::{Mode, SummaryModel};
use crate::costs::spending::Payer;
use crate::dashboard::DashboardHandle;
use crate::error::Fault;
use crate::exchange::send::Route;
use crate::explanation::ConversationId;
use crate::learned::learned_models::LearnedModels;
use crate::proxy_state::ProxyState;
use crate::request::buffered_body::BufferedBody;
use crate::request::overrides::RequestOverrides;
use crate::traces::ParentContext;
use longhaul_core::conversation::Conversation;
use longhaul_core::cost::caps::Caps;
use longhaul_core::dialect::compress_api::CompressRequest;
use longhaul_core::planning::plan::SummarySource;
use longhaul_core::policy::CompactionSettings;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::TableWindow;

/// Maximum characters of a model's name in the log.
const MAX_LOGGED_MODEL_CHARS: usize = 100;

/// A parsed chat request, with the state and the route for it.
pub(crate) struct ChatRequest<'c> {
    pub(crate) state: &'c Arc<ProxyState>,
    pub(crate) route: &'c Route,
    pub(crate) head: &'c Parts,
    pub(crate) body: &'c BufferedBody,
    pub(crate) conversation: &'c Conversation<'c>,
    pub(crate) scope: Scope,
    pub(crate) overrides: RequestOverrides,
    pub(crate) meter: Arc<TransferMeter>,
    /// Request of the gateway that gets the messages back, if any.
    pub(crate) from_gateway: Option<&'c CompressRequest<'c>>,
    /// Trace parent of the additional calls made for this request. `None` if the calls are not
    /// traced.
    pub(crate) parent: Option<ParentContext>,
}

/// The immutable state of one chat. The inputs and the plan of each send are in its
/// [`Attempt`](crate::chat::attempt::Attempt).
pub(crate) struct Chat<'c> {
    pub(crate) request: ChatRequest<'c>,
    pub(super) mode: Mode,
    pub(super) compact_now: bool,
    pub(super) prefix_keys: PrefixKeys,
    pub(super) model: Arc<str>,
    /// The window that the table of models states. The table is searched once for a request.
    pub(super) table_window: Option<TableWindow>,
    pub(super) settings: CompactionSettings,
    /// Facts that replies to this caller have shown.
    pub(super) learned: Arc<LearnedModels>,
    pub(crate) dashboard: Option<DashboardHandle>,
}

impl<'c> Chat<'c> {
    /// Fails if the payer of the request has reached a cap.
    pub(crate) fn check_caps(&self) -> Result<(), Fault> {
        let state = self.state();
        let fault = self.payer().and_then(|it| state.spending.fault(state.config.caps, it));
        fault.map_or(Ok(()), Err)
    }

    /// Returns the payer of the request; `None` if no cap is set.
    pub(crate) fn payer(&self) -> Option<Payer> {
        let has_caps = self.state().config.caps != Caps::default();
        has_caps.then(|| Payer::new(self.request.scope, &self.prefix_keys))
    }

    /// Whether replies are held back to detect overflows.
    pub(super) fn recovery_enabled(&self) -> bool {
        self.settings.recover && self.mode == Mode::On
    }

    pub(super) fn state(&self) -> &'c ProxyState {
        self.request.state
    }

    /// Returns the window that the operator set for the model, if any.
    pub(super) fn configured_window(&self) -> Option<Tokens> {
        let config = &self.state().config;
        config.settings_for(&self.model).configured_window()
    }

    /// Returns the beginning of the model's name, which the client chooses.
    pub(crate) fn model_in_log(&self) -> &str {
        let end = self.model.char_indices().nth(MAX_LOGGED_MODEL_CHARS);
        let end = end.map_or(self.model.len(), |(end, _)| end);
        self.model.get(..end).unwrap_or_default()
    }

    /// Returns the identifier of the conversation; `None` if no message identifies it yet.
    pub(crate) fn conversation_id(&self) -> Option<ConversationId> {
        self.prefix_keys.first_key().map(ConversationId::new)
    }

    /// Returns whether a model or the digest rules write summaries.
    pub(super) fn summary_source(&self) -> SummarySource {
        // Shadow mode requests no summaries: each is a paid call. Neither a gateway nor its client has sent a
        // key for one.
        let may_call = self.mode == Mode::On && self.request.from_gateway.is_none();
        let has_model = self.state().config.summary.model != SummaryModel::Disabled;
        if may_call && has_model { SummarySource::Model } else { SummarySource::Digest }
    }
}
