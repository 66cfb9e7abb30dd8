//! One integration binary; each module is a theme.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper of tests may fail its test; clippy exempts only the tests themselves"
)]

mod cli;
mod faults;
mod harness;
mod passage;
mod program;
mod sdk;
mod tls;
mod transparency;
