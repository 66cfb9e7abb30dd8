//! longhaul: a transparent reverse proxy that keeps long conversations inside the model's window.

<<<<<<< HEAD
pub mod rewrite;
=======
pub mod demo;
>>>>>>> model
