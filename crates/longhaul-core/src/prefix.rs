//! Keys of conversation prefixes.

pub mod keys;
