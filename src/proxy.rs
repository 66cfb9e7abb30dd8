//! The life of a request.

pub mod held;
pub mod watch;
