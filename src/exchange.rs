//! Exchanges with the upstream: sending, judging and relaying.

pub(crate) mod client_connection;
mod error_reply;
pub(crate) mod fault_response;
pub(crate) mod relay;
pub(crate) mod reply_gate;
pub(crate) mod reply_observer;
pub(crate) mod request_log;
pub(crate) mod send;
pub(crate) mod tunnel;
