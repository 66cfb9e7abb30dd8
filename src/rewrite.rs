//! The pure core: bytes in, decisions and bytes out.

pub mod sse;
