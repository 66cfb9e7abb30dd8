//! longhaul: a transparent reverse proxy that keeps long conversations inside the model's window.

pub mod demo;
pub mod rewrite;
