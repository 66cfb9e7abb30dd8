//! Template of a summary call.

use crate::conversation::Conversation;
use crate::dialect::{Dialect, dispatch};
use crate::units::tokens::Tokens;

/// Template of a summary call: the client's request, and the model and endpoint of the call. The
/// call repeats the client's model and routing byte for byte, so that the caller's data policy and
/// provider preferences apply to the summary too.
#[derive(Clone, Copy, Debug)]
pub struct RequestTemplate<'c> {
    pub(crate) conversation: &'c Conversation<'c>,
    /// The model to call, if it is not the client's own.
    pub(crate) other_model: Option<&'c str>,
    /// Whether the call goes to the client's own endpoint. Elsewhere, routing and cache key are
    /// meaningless.
    pub(crate) is_own_endpoint: bool,
    pub(crate) dialect: Dialect,
}

impl<'c> RequestTemplate<'c> {
    /// Takes the template from the client's request, for `model` or else for the client's own
    /// model.
    pub fn from_request(conversation: &'c Conversation<'c>, model: Option<&'c str>) -> Self {
        Self {
            conversation,
            other_model: model,
            is_own_endpoint: true,
            dialect: conversation.dialect(),
        }
    }

    /// Adapts the template to an endpoint other than the client's.
    #[must_use]
    pub fn for_other_endpoint(self) -> Self {
        Self { is_own_endpoint: false, ..self }
    }

    /// Adapts the template to an endpoint of this dialect, whatever that of the client.
    #[must_use]
    pub fn in_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Whether the call has the client's dialect, and so may repeat members of its request.
    pub(crate) fn is_own_dialect(&self) -> bool {
        self.dialect == self.conversation.dialect()
    }

    /// Whether the path of the call names the model, and whether the reply is streamed.
    pub(crate) fn has_model_in_path(&self) -> bool {
        self.is_own_endpoint && self.conversation.params().path.is_some()
    }

    /// Returns the whole body of the call. The body requests a stream, because many proxies close a
    /// connection that stays idle while a summary is generated.
    pub(crate) fn render(&self, system: &str, user: &str, output: Tokens) -> String {
        dispatch!(self.dialect, summary_request::body(self, system, user, output))
    }
}
