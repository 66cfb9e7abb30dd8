//! The scope secret, from which keys and seals are derived: without it, neither can be forged.

use std::fmt;

use crate::config::StoreConfig;
use crate::error::Problem;

pub(super) const LENGTH: u64 = 32;

/// A secret of 32 bytes, which `Debug` does not show.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Generates a new secret. Fails if the system's random number generator fails.
    pub(crate) fn generate() -> Result<Self, Problem> {
        random_bytes().map(Self)
    }

    /// Derives another key, for this purpose only.
    pub(super) fn derive(&self, purpose: &'static str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.0)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Returns the secret of the settings, if one is set. Derived from a text, it is only as strong as the
/// text.
pub(super) fn from_settings(config: &StoreConfig) -> Option<Secret> {
    let text = config.scope_secret.as_ref()?.expose().as_bytes();
    let context = "longhaul 2026 scope secret of a setting";
    Some(Secret(blake3::derive_key(context, text)))
}

/// Returns unpredictable bytes from the system's random number generator.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], Problem> {
    let mut bytes = [0; N];
    let random = rustls::crypto::ring::default_provider().secure_random;
    match random.fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(Problem::Store("the system's random number generator failed".into())),
    }
}
