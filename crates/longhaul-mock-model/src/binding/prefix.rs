//! Running hashes of what a provider renders.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// The key of the hashes.
const KEY: u64 = 0x71d3_0e5c_a94b_2f86;
/// The maximum number of ways to read what stands before an item: one for each compaction of a compaction.
const WAYS: usize = 16;

/// A hash of everything before an item, in each way to read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    exact: u64,
    /// Hashes as if the covered prefix stood in place of a compaction.
    covered: Vec<u64>,
}

impl Prefix {
    pub(crate) fn new(start: u64) -> Self {
        Self { exact: start, covered: Vec::new() }
    }

    /// Adds the hash of an item.
    pub(crate) fn add(&mut self, item: u64) {
        for way in self.covered.iter_mut().chain([&mut self.exact]) {
            *way = link(*way, item);
        }
    }

    /// Begins anew at a compaction that stands for a covered prefix.
    pub(crate) fn restart(&mut self, start: u64, mut covered: Vec<u64>) {
        covered.truncate(WAYS);
        *self = Self { exact: start, covered };
    }

    /// Returns the hash of what stands there.
    pub(crate) fn exact(&self) -> u64 {
        self.exact
    }

    /// Returns the hash in each way.
    pub(crate) fn ways(&self) -> Vec<u64> {
        std::iter::once(self.exact).chain(self.covered.iter().copied()).collect()
    }

    /// Whether reasoning that is bound to `bound` may stand here.
    pub(crate) fn fits(&self, bound: u64) -> bool {
        self.exact == bound || self.covered.contains(&bound)
    }
}

/// Returns the hash of a sequence with one more item.
pub(crate) fn link(before: u64, item: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (KEY, before, item).hash(&mut hasher);
    hasher.finish()
}

/// Returns the hash of a value. The order of keys, null members and the `ignored` members do not count.
pub(crate) fn hash(value: &Value, ignored: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    KEY.hash(&mut hasher);
    add(&mut hasher, value, ignored);
    hasher.finish()
}

fn add(hasher: &mut DefaultHasher, value: &Value, ignored: &[&str]) {
    match value {
        Value::Array(items) => {
            (b'[', items.len()).hash(hasher);
            for item in items {
                add(hasher, item, ignored);
            }
        }
        Value::Object(members) => {
            let counts = |name: &str, value: &Value| !ignored.contains(&name) && !value.is_null();
            let mut members: Vec<_> =
                members.iter().filter(|(name, value)| counts(name, value)).collect();
            members.sort_by_key(|(name, _)| *name);
            (b'{', members.len()).hash(hasher);
            for (name, value) in members {
                name.hash(hasher);
                add(hasher, value, ignored);
            }
        }
        Value::String(text) => (b'"', text).hash(hasher),
        Value::Bool(_) | Value::Null | Value::Number(_) => (b'=', value.to_string()).hash(hasher),
    }
}
