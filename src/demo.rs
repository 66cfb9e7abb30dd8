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

pub use count::Density;
pub use options::{Conduct, ModelOptions, SummaryConduct};
pub use reading::Reading;
pub use record::{Ended, Kind, Seen, Verdict};
pub use refusal::{Family, Overflow, Refusal};
pub use replay::{NotASession, Place, Plant, Replay, Request};
pub use server::Model;
pub use session::session;
pub use validity::{Dialect, ELSEWHERE, Envelope, RULES, Rule, Standing, UnknownRule};
