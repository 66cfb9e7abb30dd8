//! longhaul: a transparent reverse proxy that keeps long conversations inside the model's window.
//!
//! [`run`] serves one listener until its shutdown future completes, as configured by [`Config`].
//! [`cli::main`] is the entry point of the program.

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
