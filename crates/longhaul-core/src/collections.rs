//! Bounded caches that the core and the proxy share.

pub mod two_generation_cache;

/// Hash state of maps whose keys begin with a keyed hash. No caller chooses the bits of such a key, so a
/// map hashes the key again under a secret, but cheaply.
pub type DigestHashState = foldhash::fast::RandomState;
