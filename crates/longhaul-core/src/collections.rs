//! Bounded caches that the core and the proxy share.

pub mod two_generation_cache;

/// Hash state of bounded caches: cheap, with a seed drawn by each process.
///
/// Most keys begin with a keyed hash, of which no caller chooses a bit. A client that guesses the seed can make
/// its own names collide; a look-up then compares at most the names of one bounded cache.
pub type CacheHashState = foldhash::fast::RandomState;

/// Map of texts of our own, built once. Callers only look up.
pub type StaticMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;
/// Set of texts of our own, built once. Callers only look up.
pub(crate) type StaticSet<K> = std::collections::HashSet<K, foldhash::fast::FixedState>;
