//! Bounded caches that the core and the proxy share.

pub mod two_generation_cache;
