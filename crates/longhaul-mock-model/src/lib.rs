//! A strict model on loopback and recorded sessions to play to it: the upstream of `longhaul demo`
//! and of the integration tests.
//!
//! The model must not agree with the proxy by construction, so it uses none of the proxy's code. It
//! counts by its own rule and reveals its window only in refusals. With the feature `validity`, the
//! model also enforces the rules of real providers on every request.

#![forbid(unsafe_code)]

mod answer;
mod binding;
mod bound_request;
mod cache;
mod cloud;
mod count;
pub mod judged_request;
#[cfg(feature = "validity")]
mod messages;
pub mod model_state;
mod options;
mod reading;
mod record;
mod refusal;
mod replay;
mod request;
mod responses;
#[cfg(feature = "validity")]
mod rewrite_rules;
mod script;
mod server;
#[cfg(feature = "validity")]
mod server_rules;
mod session;
mod summary;
pub mod thinking;
#[cfg(feature = "validity")]
mod validity;

pub use cloud::frame;
pub use count::TokenDensity;
#[cfg(feature = "validity")]
pub use messages::{
    MESSAGES_RULES, MESSAGES_RULES_BEYOND_BODIES, MessagesRule, UNCHECKED_MESSAGES_RULES,
    broken_messages_rules,
};
pub use options::{ChatBehaviour, CompactionFault, FOLLOWED_MARK, ModelOptions, SummaryBehaviour};
pub use reading::FileReading;
pub use record::{DroppedReasoning, ReplyCompletion, RequestKind, SeenRequest, Verdict};
pub use refusal::{ErrorFamily, OverflowNumbers, RefusalReply};
pub use replay::{NotASession, PlantPosition, PlantedFact, ReplayRequest, SessionRecording};
#[cfg(feature = "validity")]
pub use responses::validity::{
    UNCHECKED_INPUT_RULES, broken_input_rules, input_rule_ids, torn_from_reasoning,
};
#[cfg(feature = "validity")]
pub use rewrite_rules::{broken_by_rewrite, is_shortened_call, rewrite_rule_ids};
pub use server::{Model, serve_connections};
#[cfg(feature = "validity")]
pub use server_rules::{ModelServer, broken_server_rules, server_rule_ids};
pub use session::{messages_session, responses_session, session};
pub use thinking::{AccountAge, PreservedThinking, ThinkingRules};
#[cfg(feature = "validity")]
pub use validity::{
    Enforcement, ErrorFormat, RULES, UNCHECKED_RULES, UnknownRule, ValidityRule, ValidityRules,
};
