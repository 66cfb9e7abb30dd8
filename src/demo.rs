//! A strict model on loopback and recorded sessions to play to it: the upstream of `longhaul demo`
//! and of the integration tests.
//!
//! It must not agree with the proxy by construction, so it uses nothing of the proxy: it counts by
//! a rule of its own, tells nobody its window except by refusing, and holds every request to the
//! rules that real providers hold it to.

mod answer;
mod cache;
mod count;
mod mind;
mod options;
mod reading;
mod record;
mod refusal;
mod replay;
mod request;
mod script;
mod server;
mod session;
mod summary;
mod turn;
mod validity;

pub use count::TokenDensity;
pub use options::{ChatBehaviour, ModelOptions, SummaryBehaviour};
pub use reading::FileReading;
pub use record::{ReplyCompletion, RequestKind, SeenRequest, Verdict};
pub use refusal::{Family, OverflowNumbers, RefusalReply};
pub use replay::{NotASession, PlantPosition, PlantedFact, ReplayRequest, SessionRecording};
pub use server::Model;
pub use session::session;
pub use validity::{
    Dialect, Enforcement, ErrorFormat, RULES, UNCHECKED_RULES, UnknownRule, ValidityRule,
};
