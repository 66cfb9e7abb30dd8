//! What the programs of the yardstick share.

mod client;
mod process;
mod runtime;

pub use client::Connection;
pub use process::Process;
pub use runtime::block_on;

/// The address that the upstream listens on; proxies under test forward to it.
pub const UPSTREAM: &str = "127.0.0.1:22000";

/// Why a program ends early; it is printed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
