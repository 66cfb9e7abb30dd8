//! Whose request it is: the scope under which its records are kept.

use http::HeaderMap;

use crate::config::Base;
use crate::rewrite::chain::Scope;
use crate::rewrite::recall::Recall;

/// What tells callers apart: credentials in the spellings of the APIs, and what they are billed to.
pub(super) const TELLING: [&str; 5] = [
    "authorization",
    "api-key",
    "x-api-key",
    "openai-organization",
    "openai-project",
];

/// Makes scopes with a secret of this process, so that no scope can be made outside it.
pub(super) struct Scopes {
    secret: [u8; 32],
}

impl Scopes {
    /// Draws the secret.
    pub(super) fn new() -> Self {
        let mut secret = [0; 32];
        // Without randomness no TLS session would come about either; then every scope is one that
        // a restart forgets all the same.
        let random = rustls::crypto::ring::default_provider().secure_random;
        if random.fill(&mut secret).is_err() {
            tracing::warn!("no randomness for the scope secret");
        }
        Self { secret }
    }

    /// A memory of messages under a secret of its own.
    pub(super) fn recall(&self) -> Recall {
        Recall::new(Scope::new(&self.secret, &[b"recall"]))
    }

    /// The scope of a request to the upstream at `base`.
    pub(super) fn of(&self, base: &Base, headers: &HeaderMap) -> Scope {
        let authority = base.authority().as_str().as_bytes();
        let mut caller: Vec<&[u8]> = vec![
            base.scheme().as_str().as_bytes(),
            authority,
            base.path().as_bytes(),
        ];
        for name in TELLING {
            for value in headers.get_all(name) {
                caller.extend([name.as_bytes(), value.as_bytes()]);
            }
        }
        Scope::new(&self.secret, &caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn each_credential_organisation_and_upstream_is_a_scope_of_its_own() {
        let scopes = Scopes::new();
        let base = |host: &str| Base::parse(&format!("http://{host}/v1")).unwrap();
        let of = |host: &str, fields: &[_]| scopes.of(&base(host), &headers(fields));
        let one = of("a", &[("authorization", "Bearer 1")]);
        assert_eq!(
            one,
            of("a", &[("authorization", "Bearer 1"), ("user-agent", "x")])
        );
        for other in [
            of("b", &[("authorization", "Bearer 1")]),
            of("a", &[("authorization", "Bearer 2")]),
            of("a", &[("x-api-key", "Bearer 1")]),
            of(
                "a",
                &[("authorization", "Bearer 1"), ("openai-project", "p")],
            ),
            of("a", &[]),
        ] {
            assert_ne!(one, other);
        }
        assert_ne!(
            one,
            Scopes::new().of(&base("a"), &headers(&[("authorization", "Bearer 1")]))
        );
    }
}
