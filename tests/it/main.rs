//! One integration binary; each module is a theme.

mod cli;
mod faults;
mod harness;
mod passage;
