//! Keys of conversation prefixes.

mod head_hash;
pub mod keys;
