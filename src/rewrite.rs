//! The pure core: bytes in, decisions and bytes out.

pub mod overflow;
pub mod sse;
