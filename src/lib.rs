//! longhaul: a transparent reverse proxy that keeps long conversations inside the model's window.
//!
//! [`run`] serves one listener until its shutdown future completes, as configured by [`Config`].
//! [`cli::main`] is the entry point of the program.

mod admin;
pub(crate) mod body;
pub(crate) mod callers;
pub(crate) mod chat;
pub mod cli;
pub mod config;
pub(crate) mod cores;
pub(crate) mod costs;
pub(crate) mod dashboard;
mod error;
pub(crate) mod exchange;
pub(crate) mod explanation;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
pub(crate) mod learned;
mod limits;
mod metrics;
mod models;
mod proxy;
pub(crate) mod proxy_state;
pub(crate) mod recall;
pub(crate) mod report;
mod request;
mod server;
mod store;
pub(crate) mod summaries;
mod telemetry;
mod traces;
mod upstream;
mod wall_clock;

pub use config::Config;
pub use error::Problem;
pub use server::run;
