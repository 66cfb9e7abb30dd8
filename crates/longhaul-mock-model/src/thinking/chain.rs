//! The chain of signatures, whatever the API: the caller walks the messages.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// The key of the hashes.
const KEY: u64 = 0x5f1e_77a9_03bd_42c8;
/// A member that marks the prompt cache, which may move.
const CACHE_MARK: &str = "cache_control";

/// A hash over everything before a block, without thinking. Order of keys, white space, cache marks
/// and missing members do not count.
#[derive(Clone, Debug)]
pub struct SignedPrefix(DefaultHasher);

impl Default for SignedPrefix {
    fn default() -> Self {
        let mut hasher = DefaultHasher::new();
        KEY.hash(&mut hasher);
        Self(hasher)
    }
}

impl SignedPrefix {
    /// Adds a value: the tools, the system prompt, a message or a block.
    pub fn add(&mut self, value: &Value) {
        add(&mut self.0, value);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

fn add(hasher: &mut DefaultHasher, value: &Value) {
    match value {
        Value::Array(items) => {
            b'['.hash(hasher);
            items.len().hash(hasher);
            for item in items {
                add(hasher, item);
            }
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .filter(|(name, value)| *name != CACHE_MARK && !value.is_null())
                .collect();
            members.sort_by_key(|(name, _)| *name);
            b'{'.hash(hasher);
            for (name, value) in members {
                name.hash(hasher);
                add(hasher, value);
            }
            b'}'.hash(hasher);
        }
        Value::String(text) => {
            b'"'.hash(hasher);
            text.hash(hasher);
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => value.to_string().hash(hasher),
    }
}

/// A signature that does not fit its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// Bytes of the block differ, or another made it.
    Forged,
    /// The block that preceded this one is missing, or one stands before it that did not.
    Gap,
    /// The bytes before the block differ.
    Prefix,
}

/// The blocks of one model in a request, from the first on.
#[derive(Debug)]
pub struct Chain {
    model: u64,
    /// The newest block, if there was one.
    newest: Option<u64>,
}

/// The parts of a signature.
struct Parts {
    model: u64,
    prefix: u64,
    /// The preceding block; zero for the first.
    preceding: u64,
    id: u64,
}

impl Chain {
    /// Begins the chain of a model.
    pub fn new(model: &str) -> Self {
        Self { model: keyed(&[model.as_bytes()]), newest: None }
    }

    /// Checks a block, given as its text and its signature, after `prefix`. Thinking of another
    /// model is dropped without a word.
    pub fn check(
        &mut self,
        prefix: &SignedPrefix,
        (text, signature): (&str, &str),
    ) -> Result<(), SignatureError> {
        let parts = Parts::read(signature).ok_or(SignatureError::Forged)?;
        if parts.id != parts.expected_id(text) {
            return Err(SignatureError::Forged);
        }
        if parts.model != self.model {
            return Ok(());
        }
        let before = self.newest.replace(parts.id);
        if before.is_some_and(|before| before != parts.preceding) {
            return Err(SignatureError::Gap);
        }
        if parts.prefix != prefix.finish() {
            return Err(SignatureError::Prefix);
        }
        Ok(())
    }

    /// Signs a new block after `prefix` and the blocks checked so far.
    pub fn sign(&self, prefix: &SignedPrefix, text: &str) -> String {
        let mut parts = Parts {
            model: self.model,
            prefix: prefix.finish(),
            preceding: self.newest.unwrap_or_default(),
            id: 0,
        };
        parts.id = parts.expected_id(text);
        let Parts { model, prefix, preceding, id } = parts;
        format!("{model:016x}{prefix:016x}{preceding:016x}{id:016x}")
    }
}

impl Parts {
    fn read(signature: &str) -> Option<Self> {
        let number =
            |at: usize| u64::from_str_radix(signature.get(16 * at..16 * at + 16)?, 16).ok();
        let is_whole = signature.len() == 64;
        Some(Self {
            model: number(0).filter(|_| is_whole)?,
            prefix: number(1)?,
            preceding: number(2)?,
            id: number(3)?,
        })
    }

    fn expected_id(&self, text: &str) -> u64 {
        let numbers = [self.model, self.prefix, self.preceding].map(u64::to_le_bytes);
        keyed(&[&numbers.concat(), text.as_bytes()])
    }
}

fn keyed(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    KEY.hash(&mut hasher);
    parts.hash(&mut hasher);
    hasher.finish()
}
