//! Comparison of the next steps of a model under two forms of the same history.
//!
//! `longhaul eval` requests a step with the history as it came, once more with the same history, and with
//! the history as longhaul forwards it. Or it scores the recorded step. Everything here is pure: choosing
//! the requests, comparing the steps, and the statistics.

pub(crate) mod agent_step;
pub(crate) mod changes;
pub(crate) mod likelihood;
pub(crate) mod paired;
pub(crate) mod sampling;
pub(crate) mod step_request;
