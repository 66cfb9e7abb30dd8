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

/// Returns the secret of the settings, or else `own`, or a new one. Derived from a text, a secret is only as
/// strong as the text.
pub(super) fn choose(config: &StoreConfig, own: Option<Secret>) -> Result<Secret, Problem> {
    let context = "longhaul 2026 scope secret of a setting";
    let set = config.scope_secret.as_ref().map(|set| set.expose().as_bytes());
    let set = set.map(|text| Secret(blake3::derive_key(context, text)));
    set.or(own).map_or_else(Secret::generate, Ok)
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
