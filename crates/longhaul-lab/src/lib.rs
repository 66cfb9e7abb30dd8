//! The surroundings of the proxy: the demo, replays of recorded sessions, and evaluations.
//!
//! The proxy builds without this crate. The crate uses the decisions of `longhaul-core` and the strict
//! model. The program passes it the proxy as [`proxy::ProxySettings`], since Cargo allows no circle of
//! packages.

#![forbid(unsafe_code)]

mod client_logs;
mod command;
pub mod demo;
pub mod error;
pub mod eval;
mod evaluation;
mod play;
mod progress;
pub mod proxy;
mod recorded_session;
pub mod replay;
mod session_runner;
