//! Code shared by the benchmark programs.

mod client;
mod process;
mod runtime;

pub use client::Connection;
pub use process::Process;
pub use runtime::block_on;

/// Address of the upstream; proxies under test forward to it.
pub const UPSTREAM: &str = "127.0.0.1:22000";

/// Reason why a program ends early; printed on exit.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
