//! longhaul: a transparent reverse proxy that keeps long conversations inside the model's window.
//!
//! [`run`] serves one listener until its future to stop is ready; [`Config`] says how.
//! [`cli::main`] is the program around it.

mod admin;
pub mod cli;
pub mod config;
pub mod demo;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod limits;
mod lock;
mod metrics;
mod models;
mod proxy;
pub mod rewrite;
mod server;
mod store;
mod summarise;
mod telemetry;
mod traces;
mod upstream;
mod wall_clock;

pub use config::Config;
pub use error::Problem;
pub use server::run;
