//! One integration binary; each module is a theme.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect fails; its own functions are tests too"
)]

mod cli;
mod explain;
mod faults;
mod harness;
mod model;
mod passage;
mod sessions;
mod tls;
mod words;
