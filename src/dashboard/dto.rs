//! Conversation data in the JSON format of the dashboard.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::dashboard::days::DayNumbers;
use crate::explanation::{RequestId, StoredExplanation};
use longhaul_core::policy::KeptText;
use longhaul_core::units::scope::RecordKey;
use longhaul_core::window::source::SourcedWindow;

/// List entry of a conversation.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ConversationDto {
    /// Identifier in the URL of the details.
    pub(crate) id: String,
    /// Beginning of the first user message.
    pub(crate) title: String,
    /// Beginning of the last user message.
    pub(crate) body: String,
    pub(crate) model: String,
    /// Product in the client's `User-Agent`; empty if there is none.
    pub(crate) agent: String,
    /// Session that the client states; empty for an agent within it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) session: String,
    /// Pseudonym of the caller, by a keyed hash of the credentials.
    pub(crate) caller: String,
    /// Policy window, in estimated tokens like `points`.
    pub(crate) window: u64,
    /// The window as its source states it.
    pub(crate) window_note: Option<SourcedWindow>,
    /// Numbers of the requests that have ended.
    #[serde(flatten)]
    pub(crate) numbers: DayNumbers,
    /// Size of the newest request that reached the upstream, by the plain estimate.
    pub(crate) newest_after: u64,
    /// Calls that reread a cleared result, and reads of originals.
    pub(crate) rereads: u64,
    /// Items and blocks of reasoning behind edits, lost to the model.
    pub(crate) lost_reasoning: u64,
    /// Largest number of them that one reply reports as dropped.
    pub(crate) dropped_reasoning: u64,
    /// Time of the last request, in milliseconds since 1970, like all times here.
    pub(crate) last: u64,
    /// Time since which a summary is being made.
    pub(crate) compacting: Option<u64>,
    /// Whether a person wants the next request to be compacted.
    pub(crate) compacts_next: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ConversationDetails {
    #[serde(flatten)]
    pub(crate) conversation: ConversationDto,
    pub(crate) points: Vec<RequestPoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Arc<str>>,
    /// Texts that stay in the conversation, where commands may change them.
    pub(crate) kept: Vec<KeptText>,
    /// Keys of the list of these texts; empty before the first request of this process.
    #[serde(skip)]
    pub(crate) kept_keys: Vec<RecordKey>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct RequestPoint {
    #[serde(skip_deserializing)]
    pub(crate) id: RequestId,
    /// Number of the request in its conversation, from 1.
    pub(crate) number: u64,
    /// Time of the request's end.
    pub(crate) at: u64,
    pub(crate) duration_ms: u64,
    pub(crate) before: u64,
    /// Tokens that were forwarded: none if the upstream received nothing of the request.
    pub(crate) after: u64,
    /// Tokens that mode on would have forwarded, in mode shadow.
    pub(crate) shadow: Option<u64>,
    pub(crate) window: u64,
    pub(crate) window_note: Option<SourcedWindow>,
    pub(crate) status: Option<u16>,
    /// Whether the client received no answer, or an error for an answer.
    pub(crate) is_error: bool,
    /// Code of the fault with which longhaul itself answered.
    pub(crate) fault: Option<Cow<'static, str>>,
    /// Class and code with which the provider named its error.
    pub(crate) error: Option<Box<str>>,
    /// Whether the upstream has received any of the request.
    pub(crate) went_on: bool,
    /// Actions applied to the request.
    pub(crate) acts: Vec<Cow<'static, str>>,
    /// Number of cleared results in the forwarded request.
    pub(crate) cleared: u64,
    /// Number of them that the request before had not cleared.
    pub(crate) newly_cleared: u64,
    /// Whether longhaul removed more from this request than from the one before.
    pub(crate) rewritten: bool,
    /// Number of the request that changed the history last; zero if none did.
    pub(crate) changed_at: u64,
    /// Size that the upstream refused first, and the limit that it stated.
    pub(crate) refused: Option<u64>,
    pub(crate) refused_limit: Option<u64>,
    pub(crate) prompt_tokens: Option<u32>,
    pub(crate) cached_tokens: Option<u32>,
    /// Cost in billionths of a dollar; `None` if unknown.
    pub(crate) cost: Option<i64>,
    /// Explanation of the request while it is kept. Serialised as whether it is.
    #[serde(rename = "has_account", serialize_with = "is_kept", skip_deserializing)]
    pub(crate) explanation: Option<Arc<StoredExplanation>>,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn is_kept<T, S: Serializer>(explanation: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(explanation.is_some())
}
