//! Bounded caches that the core and the proxy share.

pub mod two_generation_cache;

/// Hash state of bounded caches: cheap, with a seed drawn by each process.
///
/// Most keys begin with a keyed hash, of which no caller chooses a bit. A client that guesses the seed can make
/// its own names collide; a look-up then compares at most the names of one bounded cache.
pub type CacheHashState = foldhash::fast::RandomState;
