//! Scopes of records, derived from the caller of a request.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName};

use crate::callers::owners::{OwnerTag, Owners};
use crate::callers::{AcceptedCallers, ParseCaches};
use crate::config::{BaseUrl, CallerIdentity};
use crate::request::caller_identity::{identifying_headers, identifying_parameters};
use crate::request::credentials::CredentialFields;
use crate::store::Secret;
use longhaul_core::dialect::Dialect;
use longhaul_core::units::scope::Scope;

/// Credential headers of the APIs, which longhaul's own key replaces.
pub(crate) static CREDENTIALS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// The caller of a request, whatever its path; an extension of the request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RequestCaller {
    scope: Scope,
    /// Scope of the account, which counts once its host has accepted this very caller.
    account: Option<Scope>,
}

impl RequestCaller {
    /// Returns the scope of the caller's requests to the upstream's path and query `target`.
    ///
    /// One origin may serve many tenants, each under its own path. A request that counts tokens has the
    /// scope of its chats.
    pub(crate) fn at(self, target: &PathAndQuery, accepted: &AcceptedCallers) -> Scope {
        let own = Self::part(self.scope, target);
        let is_proven = |_: &Scope| accepted.contains(own.tag());
        let account = self.account.filter(is_proven);
        account.map_or(own, |account| Self::part(account, target))
    }

    fn part(scope: Scope, target: &PathAndQuery) -> Scope {
        let path = target.path().trim_end_matches('/');
        let path = Dialect::counted_path(path).unwrap_or(path);
        let folder = Dialect::split_path(path).map_or(path, |(folder, _)| folder);
        scope.of_part(folder)
    }
}

/// Derives scopes with a secret, so that no scope can be derived without the secret.
pub(crate) struct ScopeFactory {
    secret: Secret,
    by: CallerIdentity,
    credentials: CredentialFields,
}

impl ScopeFactory {
    /// Creates the derivation with this secret, distinguishing callers by `by`. The fields `credentials`
    /// authenticate a caller, in addition to those that upstreams are known to read.
    pub(crate) fn new(secret: Secret, by: CallerIdentity, credentials: &[String]) -> Self {
        Self { secret, by, credentials: CredentialFields::new(credentials) }
    }

    /// Returns the header that identifies a caller, which is never forwarded.
    pub(crate) fn caller_header(&self) -> Option<&HeaderName> {
        match &self.by {
            CallerIdentity::Credentials => None,
            CallerIdentity::Header(name) => Some(name),
        }
    }

    /// Creates parse caches keyed by a separate secret.
    pub(crate) fn parse_caches(&self, accepted: &Arc<AcceptedCallers>) -> ParseCaches {
        let secret = Scope::new(self.secret.as_bytes(), &[b"recall"]);
        ParseCaches::new(secret, accepted)
    }

    /// Reads the fields of a request to the upstream at `base` that identify its caller.
    pub(crate) fn read<'r>(
        &self,
        base: &'r BaseUrl,
        query: Option<&'r str>,
        headers: &'r HeaderMap,
    ) -> CallerFields<'r> {
        let values = |name: &'r HeaderName| {
            let values = headers.get_all(name).iter();
            values.map(|value| (Cow::Borrowed(name.as_str()), value.as_bytes()))
        };
        // A request without the header keeps its credential-based scope.
        let trusted = self.caller_header().and_then(|name| headers.keys().find(|key| *key == name));
        let mut fields: Vec<_> = trusted.into_iter().flat_map(values).collect();
        if trusted.is_none() {
            let further = |name: &str| self.credentials.has_further(name);
            fields.extend(identifying_headers(headers, further).into_iter().flat_map(values));
            // A header's name cannot contain a question mark.
            let parameters = identifying_parameters(query, further).into_iter();
            fields.extend(
                parameters.map(|(name, value)| (format!("?{name}").into(), value.as_bytes())),
            );
        }
        let upstream = [base.scheme().as_str(), base.authority().as_str(), base.path()];
        CallerFields {
            upstream: upstream.map(str::as_bytes),
            is_vouched_for: trusted.is_some(),
            fields,
        }
    }

    /// Returns the caller with these fields. `subject` is that of a login at the upstream that issued the login:
    /// all tokens of one subject and account share the account's scope.
    pub(crate) fn caller(&self, caller: &CallerFields<'_>, subject: Option<&str>) -> RequestCaller {
        let scope = |subject: Option<&str>| {
            let mut parts = caller.upstream.to_vec();
            let fields = caller.fields.iter();
            parts.extend(fields.flat_map(|(name, value)| match subject {
                // No header has a space in its name.
                Some(subject) if AUTHORIZATION == **name => [b"login subject", subject.as_bytes()],
                _ => [name.as_bytes(), *value],
            }));
            Scope::new(self.secret.as_bytes(), &parts)
        };
        let subject = subject.filter(|_| !caller.is_vouched_for);
        RequestCaller { scope: scope(None), account: subject.map(|subject| scope(Some(subject))) }
    }

    /// Returns the owners of a request of a caller with these fields: its credentials, or the header by
    /// which the operator tells callers apart.
    pub(crate) fn owners(&self, caller: &CallerFields<'_>, peer: Option<IpAddr>) -> Owners {
        let tags: Vec<OwnerTag> = if caller.is_vouched_for {
            let values = caller.fields.iter();
            values.map(|(_, value)| self.owner_tag(OwnerKind::Header, value)).collect()
        } else {
            let values = self.credentials.values(&caller.fields).into_iter();
            values.map(|value| self.owner_tag(OwnerKind::Credential, &value)).collect()
        };
        let set = match &*tags {
            [] => return Owners::strangers(peer),
            [only] => *only,
            several => {
                let mut sorted = several.to_vec();
                sorted.sort_unstable();
                let parts: Vec<u8> = sorted.iter().flat_map(|tag| tag.0).collect();
                self.owner_tag(OwnerKind::Set, &parts)
            }
        };
        Owners::new(tags, set, peer)
    }

    pub(crate) fn owners_of_token(&self, token: &[u8], peer: Option<IpAddr>) -> Owners {
        Owners::of_tag(self.owner_tag(OwnerKind::ClientToken, token), peer)
    }

    /// Returns the tag of the owner with this value. A value that is secret in one field may be public in
    /// another, so each kind has its own tags.
    fn owner_tag(&self, kind: OwnerKind, value: &[u8]) -> OwnerTag {
        let parts: [&[u8]; 3] = [b"owner", &[kind as u8], value];
        Scope::new(self.secret.as_bytes(), &parts).tag()
    }
}

#[derive(Clone, Copy)]
enum OwnerKind {
    ClientToken,
    Credential,
    Header,
    /// All credentials of a request.
    Set,
}

pub(crate) struct CallerFields<'r> {
    /// Scheme, authority and path of the base URL.
    upstream: [&'r [u8]; 3],
    /// Whether the fields are the header by which the operator tells callers apart.
    pub(crate) is_vouched_for: bool,
    /// Names and values. The name of a query parameter begins with a question mark.
    fields: Vec<(Cow<'r, str>, &'r [u8])>,
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use serde_json::Value;

    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn drawn() -> ScopeFactory {
        ScopeFactory::new(Secret::generate().unwrap(), CallerIdentity::Credentials, &[])
    }

    fn base(host: &str) -> BaseUrl {
        BaseUrl::parse(&format!("http://{host}/v1")).unwrap()
    }

    fn scope_of(
        factory: &ScopeFactory,
        target: &str,
        fields: &[(&'static str, &'static str)],
    ) -> Scope {
        scope_at(factory, "a", &target.parse().unwrap(), &headers(fields))
    }

    fn scope_at(
        factory: &ScopeFactory,
        host: &str,
        target: &PathAndQuery,
        headers: &HeaderMap,
    ) -> Scope {
        let base = base(host);
        let caller = factory.caller(&factory.read(&base, target.query(), headers), None);
        caller.at(target, &AcceptedCallers::default())
    }

    const CHAT: &str = "/v1/chat/completions";
    const KEY: (&str, &str) = ("authorization", "Bearer 1");

    #[test]
    fn each_credential_account_path_and_upstream_has_its_own_scope() {
        let factory = drawn();
        let scope = scope_of(&factory, CHAT, &[KEY]);
        let other_upstream = scope_at(&factory, "b", &CHAT.parse().unwrap(), &headers(&[KEY]));
        assert_ne!(scope, other_upstream);
        assert_ne!(scope, scope_of(&drawn(), CHAT, &[KEY]));
        for other in [
            &[("authorization", "Bearer 2")][..],
            &[("x-api-key", "Bearer 1")],
            &[KEY, ("x-portkey-api-key", "g")],
            &[KEY, ("openai-project", "p")],
            &[],
        ] {
            assert_ne!(scope, scope_of(&factory, CHAT, other), "{other:?}");
        }
        for target in [
            "/tenant/chat/completions",
            "/v1/chat/completions?key=1",
            "/v1/chat/completions?api-key=1",
        ] {
            assert_ne!(scope, scope_of(&factory, target, &[KEY]), "{target}");
        }
    }

    #[test]
    fn values_that_change_between_requests_do_not_change_the_scope() {
        let factory = drawn();
        let scope = scope_of(&factory, CHAT, &[KEY]);
        for field in [
            ("cookie", "__cf_bm=1"),
            ("idempotency-key", "1"),
            ("user-agent", "x"),
            ("x-request-id", "1"),
        ] {
            assert_eq!(scope, scope_of(&factory, CHAT, &[field, KEY]), "{field:?}");
        }
        for target in ["/v1/chat/completions/", "/v1/chat/completions?api-version=2", "/v1"] {
            assert_eq!(scope, scope_of(&factory, target, &[KEY]), "{target}");
        }
        let ordered = [KEY, ("x-api-key", "2")];
        let reversed = [("x-api-key", "2"), KEY];
        assert_eq!(scope_of(&factory, CHAT, &ordered), scope_of(&factory, CHAT, &reversed));
    }

    #[test]
    fn every_recorded_client_keeps_one_scope_per_key() {
        let factory = drawn();
        let mut scopes = HashMap::new();
        for line in include_str!("../../fixtures/clients.jsonl").lines() {
            let request: Value = serde_json::from_str(line).unwrap();
            let target: PathAndQuery = request["target"].as_str().unwrap().parse().unwrap();
            let fields: Vec<(String, String)> =
                serde_json::from_value(request["headers"].clone()).unwrap();
            let mut headers: HeaderMap = fields
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect();
            let scope = scope_at(&factory, "a", &target, &headers);
            let client = (request["client"].to_string(), target.path().to_owned());
            let first = *scopes.entry(client.clone()).or_insert(scope);
            assert_eq!(first, scope, "{client:?}");
            // Another key is another caller, whichever field the client sends the key in.
            for value in headers.values_mut() {
                let text = value.to_str().unwrap();
                *value = text.replace("test-", "other-").parse().unwrap();
            }
            let other = scope_at(&factory, "a", &target, &headers);
            assert_ne!(scope, other, "{client:?}");
        }
        let clients: HashSet<&String> = scopes.keys().map(|(client, _)| client).collect();
        assert!(clients.len() >= 10, "{}", clients.len());
    }

    #[test]
    fn a_caller_is_independent_of_paths() {
        let factory = drawn();
        let (base, headers) = (base("a"), headers(&[KEY]));
        let caller = |query| factory.caller(&factory.read(&base, query, &headers), None);
        assert_eq!(caller(None), caller(Some("limit=2")));
        assert_ne!(caller(None), caller(Some("key=2")));
    }

    #[test]
    fn only_credentials_and_the_trusted_header_own_anything() {
        let header = CallerIdentity::Header(HeaderName::from_static("x-user"));
        let by_header = ScopeFactory::new(Secret::generate().unwrap(), header, &[]);
        let owners = |factory: &ScopeFactory, fields: &[_]| {
            let (base, headers) = (base("a"), headers(fields));
            let owners = factory.owners(&factory.read(&base, None, &headers), None);
            owners.credentials().to_vec()
        };
        let factory = drawn();
        let own = owners(&factory, &[KEY]);
        assert_eq!(own.len(), 1);
        assert_eq!(own, owners(&factory, &[KEY, ("x-a-token", "1"), ("x-user", "1")]));
        assert_eq!(own, owners(&factory, &[("x-api-key", "1")]), "in any field");
        let both = owners(&factory, &[KEY, ("x-api-key", "2")]);
        assert!(both.len() == 2 && both.contains(&own[0]));
        assert!(owners(&factory, &[("x-user", "1")]).is_empty());
        let user = owners(&by_header, &[KEY, ("x-user", "1")]);
        assert_eq!(user, owners(&by_header, &[("x-user", "1"), ("x-api-key", "2")]));
        assert_ne!(user, owners(&by_header, &[("x-user", "2")]));
    }

    #[test]
    fn trusted_header_identifies_callers_regardless_of_credentials() {
        let name = HeaderName::from_static("x-user");
        let factory =
            ScopeFactory::new(Secret::generate().unwrap(), CallerIdentity::Header(name), &[]);
        let scope = scope_of(&factory, CHAT, &[("x-user", "1"), KEY]);
        let rotated = [("authorization", "Bearer 2"), ("x-user", "1")];
        assert_eq!(scope, scope_of(&factory, CHAT, &rotated));
        for other in [&[("x-user", "2"), KEY][..], &[KEY], &[]] {
            assert_ne!(scope, scope_of(&factory, CHAT, other));
        }
        assert_ne!(scope_of(&factory, CHAT, &[KEY]), scope_of(&factory, CHAT, &[]));
    }
}
