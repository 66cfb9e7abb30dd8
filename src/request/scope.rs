//! Scopes of records, derived from the caller of a request.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use crate::config::{BaseUrl, CallerIdentity};
use crate::store::Secret;
use longhaul_core::conversation::parse_cache::ParseCache;
use longhaul_core::units::scope::Scope;

/// Credential headers of the APIs.
pub(crate) static CREDENTIALS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// Credential headers of gateways in front of the APIs.
static GATEWAY_CREDENTIALS: [HeaderName; 2] = [
    HeaderName::from_static("cf-aig-authorization"),
    HeaderName::from_static("ocp-apim-subscription-key"),
];

/// Headers that select the billing account.
static BILLING_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("openai-organization"),
    HeaderName::from_static("openai-project"),
];

/// Returns the headers that distinguish callers, in the order in which scopes are derived:
/// credentials, gateway credentials and billing accounts.
///
/// Cookies are not among them. Load balancers and bot protection set new cookies with each reply
/// and clients send them back, so each change would lose the conversation's records.
pub(crate) fn identifying_headers() -> impl Iterator<Item = &'static HeaderName> {
    CREDENTIALS
        .iter()
        .chain(&GATEWAY_CREDENTIALS)
        .chain(&BILLING_HEADERS)
}

/// Derives scopes with a secret, so that no scope can be derived without the secret.
pub(crate) struct ScopeFactory {
    secret: Secret,
    by: CallerIdentity,
}

impl ScopeFactory {
    /// Creates the derivation with this secret, distinguishing callers by `by`.
    pub(crate) fn new(secret: Secret, by: CallerIdentity) -> Self {
        Self { secret, by }
    }

    /// Returns the header that identifies a caller, which is never forwarded.
    pub(crate) fn caller_header(&self) -> Option<&HeaderName> {
        match &self.by {
            CallerIdentity::Credentials => None,
            CallerIdentity::Header(name) => Some(name),
        }
    }

    /// Creates a parse cache keyed by a secret of its own.
    pub(crate) fn parse_cache(&self) -> ParseCache {
        ParseCache::new(Scope::new(self.secret.as_bytes(), &[b"recall"]))
    }

    /// Returns the scope of a request to the upstream at `base`.
    pub(crate) fn for_request(&self, base: &BaseUrl, headers: &HeaderMap) -> Scope {
        let mut caller = upstream_identity(base).to_vec();
        // A request without the header keeps its credential-based scope.
        let header = self
            .caller_header()
            .filter(|name| headers.contains_key(*name));
        match header {
            Some(name) => append_header(&mut caller, name, headers),
            None => {
                identifying_headers().for_each(|name| append_header(&mut caller, name, headers));
            }
        }
        Scope::new(self.secret.as_bytes(), &caller)
    }
}

/// Adds the values of one header to the identity of a caller.
fn append_header<'h>(caller: &mut Vec<&'h [u8]>, name: &'h HeaderName, headers: &'h HeaderMap) {
    for value in headers.get_all(name) {
        caller.extend([name.as_str().as_bytes(), value.as_bytes()]);
    }
}

/// Returns the parts of the base URL that identify an upstream.
fn upstream_identity(base: &BaseUrl) -> [&[u8]; 3] {
    [
        base.scheme().as_str().as_bytes(),
        base.authority().as_str().as_bytes(),
        base.path().as_bytes(),
    ]
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

    fn drawn() -> ScopeFactory {
        ScopeFactory::new(Secret::generate().unwrap(), CallerIdentity::Credentials)
    }

    #[test]
    fn each_credential_organisation_and_upstream_is_a_scope_of_its_own() {
        let scopes = drawn();
        let base = |host: &str| BaseUrl::parse(&format!("http://{host}/v1")).unwrap();
        let of = |host: &str, fields: &[_]| scopes.for_request(&base(host), &headers(fields));
        let one = of("a", &[("authorization", "Bearer 1")]);
        for (name, value) in [("user-agent", "x"), ("cookie", "__cf_bm=1")] {
            assert_eq!(
                one,
                of("a", &[("authorization", "Bearer 1"), (name, value)])
            );
        }
        for other in [
            of("b", &[("authorization", "Bearer 1")]),
            of("a", &[("authorization", "Bearer 2")]),
            of("a", &[("x-api-key", "Bearer 1")]),
            of(
                "a",
                &[("authorization", "Bearer 1"), ("cf-aig-authorization", "g")],
            ),
            of("a", &[("ocp-apim-subscription-key", "1")]),
            of("a", &[("x-goog-api-key", "1")]),
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
            drawn().for_request(&base("a"), &headers(&[("authorization", "Bearer 1")]))
        );
    }

    #[test]
    fn a_trusted_header_tells_callers_apart_whatever_their_credentials() {
        let name = HeaderName::from_static("x-user");
        let scopes = ScopeFactory::new(Secret::generate().unwrap(), CallerIdentity::Header(name));
        let base = BaseUrl::parse("http://a/v1").unwrap();
        let of = |fields: &[_]| scopes.for_request(&base, &headers(fields));
        let one = of(&[("x-user", "1"), ("authorization", "Bearer 1")]);
        assert_eq!(one, of(&[("authorization", "Bearer 2"), ("x-user", "1")]));
        for other in [
            of(&[("x-user", "2"), ("authorization", "Bearer 1")]),
            of(&[("authorization", "Bearer 1")]),
            of(&[]),
        ] {
            assert_ne!(one, other);
        }
        assert_ne!(of(&[("authorization", "Bearer 1")]), of(&[]));
    }
}
