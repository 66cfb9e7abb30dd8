//! The surroundings of the proxy: the demo, replays of recorded sessions, and evaluations.
//!
//! The proxy builds without this crate. The crate uses the decisions of `longhaul-core` and the strict
//! model, and receives the proxy from the program.

#![forbid(unsafe_code)]

pub mod evaluation;
