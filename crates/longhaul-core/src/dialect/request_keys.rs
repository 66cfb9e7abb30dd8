//! Keys that longhaul uses, and the check that an object contains each at most once. Every dialect lists
//! its own keys.

use crate::dialect::bypass::Bypass;
use crate::json::scanner::{Literal, Scanner};

/// Key of one kind of object. Each kind has at most 32.
pub(super) trait Key: Copy {
    /// Returns the key with this name, or `None` if longhaul does not use it.
    fn from_name(name: &str) -> Option<Self>;

    /// Returns the key's number within its kind.
    fn number(self) -> u32;

    /// Whether several names share this meaning, and may occur together.
    fn is_shared(self) -> bool;
}

/// Declares the keys of one kind of object, each with the names that spell it. Names of a `shared` key
/// may occur together.
macro_rules! keys {
    ($(#[$of:meta])* $kind:ident { $($key:ident = $names:pat,)+ } shared { $($shared:ident = $alike:pat,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Eq, PartialEq)]
        pub(super) enum $kind {
            $($key,)+
            $($shared,)*
        }

        impl $crate::dialect::request_keys::Key for $kind {
            fn from_name(name: &str) -> Option<Self> {
                Some(match name {
                    $($names => Self::$key,)+
                    $($alike => Self::$shared,)*
                    _ => return None,
                })
            }

            fn number(self) -> u32 {
                self as u32
            }

            fn is_shared(self) -> bool {
                match self {
                    $(Self::$key => false,)+
                    $(Self::$shared => true,)*
                }
            }
        }
    };
}

pub(super) use keys;

/// Set of keys found in an object so far.
#[derive(Default)]
pub(super) struct SeenKeys(u32);

impl SeenKeys {
    pub(super) fn contains(&self, key: impl Key) -> bool {
        self.0 & (1 << key.number()) != 0
    }

    /// Inserts `key`. Fails if the object contains the key twice. Parsers differ in which of the
    /// two values they take.
    pub(super) fn insert_once(&mut self, key: impl Key) -> Result<(), Bypass> {
        if self.contains(key) && !key.is_shared() {
            return Err(Bypass::Duplicate);
        }
        self.0 |= 1 << key.number();
        Ok(())
    }

    /// Returns the known key that a literal spells, and inserts it.
    pub(super) fn next<K: Key>(
        &mut self,
        scanner: &Scanner<'_>,
        spelt: Literal,
    ) -> Result<Option<K>, Bypass> {
        let key = known_key(scanner, spelt);
        if let Some(key) = key {
            self.insert_once(key)?;
        }
        Ok(key)
    }
}

/// Returns the known key that a literal spells, escaped or not.
pub(super) fn known_key<K: Key>(scanner: &Scanner<'_>, spelt: Literal) -> Option<K> {
    let text = scanner.text();
    // Only an escaped key is copied.
    if spelt.is_escaped() {
        K::from_name(&spelt.decode(text))
    } else {
        K::from_name(spelt.raw(text))
    }
}
