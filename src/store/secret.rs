//! The scope secret: what keys and seals are made with, so that nobody without it can make one.

use std::fmt;

use crate::config::StoreConfig;
use crate::error::Problem;

/// Bytes of a secret.
pub(super) const LENGTH: u64 = 32;

/// 32 bytes that no rendering shows.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    /// This secret.
    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new one.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub(crate) fn generate() -> Result<Self, Problem> {
        random_bytes().map(Self)
    }

    /// The one that follows from a text, whose strength it has.
    pub(super) fn from_text(text: &str) -> Self {
        Self(blake3::derive_key(
            "longhaul 2026 scope secret of a setting",
            text.as_bytes(),
        ))
    }

    /// Another key from it, for this purpose alone.
    pub(super) fn derive(&self, purpose: &'static str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.0)
    }

    /// The secret itself.
    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The one of the settings, if one is set.
pub(super) fn from_settings(config: &StoreConfig) -> Option<Secret> {
    let set = config.scope_secret.as_ref();
    set.map(|set| Secret::from_text(set.expose()))
}

/// Bytes that nobody can guess.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], Problem> {
    let mut bytes = [0; N];
    let random = rustls::crypto::ring::default_provider().secure_random;
    match random.fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(Problem::Store("the system gives no randomness".into())),
    }
}
