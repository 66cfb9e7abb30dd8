//! Keys of conversation prefixes, and the cache of parsed messages.

pub mod keys;
pub mod parse_cache;
