//! A chat request: its parsed conversation, its settings, and the steps that serve it.
//!
//! [`prepare`] → [`plan`] → send → [`judge`] → [`retry`] → [`settle`]. Each step takes what the
//! earlier ones returned. [`crate::proxy`] runs them.

pub(crate) mod account;
mod adopt;
pub(crate) mod attempt;
pub(crate) mod count;
pub(crate) mod explicit_compaction;
pub(crate) mod judge;
mod media;
mod notices;
mod output_limit;
mod placement;
pub(crate) mod plan;
pub(crate) mod prepare;
mod recall;
mod recovery;
pub(crate) mod retry;
pub(crate) mod rewrite;
pub(crate) mod settle;
mod summary;
mod summary_call;
mod summary_task;
#[cfg(test)]
mod test_support;
mod thinking;
mod title;
pub(crate) mod unanswered_call;
pub(crate) mod window;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;

use crate::account::ConversationId;
use crate::body::request_body::TransferMeter;
use crate::chat::attempt::Attempt;
use crate::config::{Mode, SummaryModel};
use crate::dashboard::DashboardHandle;
use crate::exchange::send::Route;
use crate::learned::model_knowledge::ModelKnowledge;
use crate::learned::windows::accepted_sizes::RequestSize;
use crate::request::buffered_body::BufferedBody;
use crate::request::headers;
use crate::request::overrides::RequestOverrides;
use crate::request::receive::read_dialect;
use crate::services::Services;
use crate::traces::ParentContext;
use longhaul_core::conversation::Conversation;
use longhaul_core::cost::comparison::BilledRequest;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::plan::SummarySource;
use longhaul_core::policy::CompactionSettings;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::TableWindow;

/// Maximum characters of a model's name in the log.
const MAX_LOGGED_MODEL_CHARS: usize = 100;

/// Parses a chat body, unless the request must be forwarded unchanged. The error is the reason for
/// forwarding the request unchanged.
pub(crate) fn read<'b>(
    services: &Services,
    head: &Parts,
    body: &'b Bytes,
    scope: Scope,
) -> Result<Conversation<'b>, Bypass> {
    if headers::is_signed(&head.headers) {
        return Err(Bypass::Signed);
    }
    let dialect = read_dialect(&head.method, head.uri.path()).ok_or(Bypass::Shape)?;
    dialect.read_cached(body, scope, services.parse_caches.for_caller(scope))
}

/// A parsed chat request, with the services and the route for it.
pub(crate) struct ChatRequest<'c> {
    pub(crate) services: &'c Arc<Services>,
    pub(crate) route: &'c Route,
    pub(crate) head: &'c Parts,
    pub(crate) body: &'c BufferedBody,
    pub(crate) conversation: &'c Conversation<'c>,
    pub(crate) scope: Scope,
    pub(crate) overrides: RequestOverrides,
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
    model: Arc<str>,
    /// The window that the table of models states. The table is searched once for a request.
    table_window: Option<TableWindow>,
    settings: CompactionSettings,
    /// Facts that replies to this caller have shown.
    knowledge: Arc<ModelKnowledge>,
    /// Dashboard entry of this conversation.
    pub(crate) dashboard: Option<DashboardHandle>,
}

impl<'c> Chat<'c> {
    /// Whether replies are held back to detect overflows.
    fn recovery_enabled(&self) -> bool {
        self.settings.recover && self.mode == Mode::On
    }

    fn services(&self) -> &'c Services {
        self.request.services
    }

    /// Returns the window that the operator set for the model, if any.
    fn configured_window(&self) -> Option<Tokens> {
        let config = &self.services().config;
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
    fn summary_source(&self) -> SummarySource {
        match (self.mode, &self.services().config.summary.model) {
            // Shadow mode requests no summaries: each is a paid call.
            (Mode::Off | Mode::Shadow, _) | (Mode::On, SummaryModel::Disabled) => {
                SummarySource::Digest
            }
            (Mode::On, SummaryModel::Named(_) | SummaryModel::SameAsConversation) => {
                SummarySource::Model
            }
        }
    }

    /// Returns the sizes of an attempt that decide whether requests like this fit.
    fn sent_size(&self, attempt: &Attempt) -> RequestSize {
        let conversation = self.request.conversation;
        RequestSize {
            tokens: attempt.tokens(conversation),
            tools: conversation.params().tool_tokens,
        }
    }

    /// Returns the sizes that an attempt is billed by. In shadow mode the forwarded size is the
    /// original one.
    fn billed(&self, attempt: &Attempt) -> BilledRequest {
        let before = self.request.conversation.tokens();
        let after = match self.mode {
            Mode::On => attempt.tokens(self.request.conversation),
            Mode::Off | Mode::Shadow => before,
        };
        BilledRequest {
            before,
            after,
            window: attempt.inputs.policy.thresholds.window,
        }
    }
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
        let services = Services::new(config).unwrap();
        let path = PathAndQuery::from_static("/v1/chat/completions");
        let read = read(&services, &head, &body, services.scope(&path, &head));
        assert_eq!(read.err(), expect, "{name}: {value}");
    }

    #[tokio::test]
    async fn signed_body_is_bypassed() {
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
