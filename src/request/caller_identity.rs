//! Header fields and query keys that identify the caller of a request.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use crate::request::listed;
use longhaul_core::units::scope::Scope;

/// Phrases of the client's program, which contain a word of an identity.
const PROGRAM: [&str; 2] = ["user-agent", "useragent"];

/// [`PROGRAM`], then words in the names of credentials and identities. Gateways and login proxies name
/// their fields freely, so no list of names is complete.
static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let words = listed(include_str!("data/identity_words.txt"));
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        // For names, which are short, a prefilter costs more than the search.
        .prefilter(false)
        .kind(Some(AhoCorasickKind::DFA))
        .build(PROGRAM.into_iter().chain(words))
        .ok()
});

/// Names without such a word.
static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| listed(include_str!("data/identity_names.txt")).collect());

/// Names with such a word whose values change between the requests of one caller, or bound them.
static PER_REQUEST: LazyLock<Vec<&str>> =
    LazyLock::new(|| listed(include_str!("data/per_request_names.txt")).collect());

/// Whether a header or a query key with this name distinguishes callers. `name` is in lower case.
pub(crate) fn identifies_caller(name: &str) -> bool {
    let name =
        if name.contains('_') { Cow::Owned(name.replace('_', "-")) } else { Cow::Borrowed(name) };
    (has_identity_word(&name) && !is_per_request(&name)) || NAMES.contains(&&*name)
}

/// Whether `name` contains a word of an identity. Runs for all names of each request: searching for the
/// words one by one takes four times as long.
fn has_identity_word(name: &str) -> bool {
    // Without the automaton, every name parts callers; a test checks that it builds.
    WORDS.as_ref().is_none_or(|words| {
        let mut found = words.find_iter(name);
        found.any(|word| word.pattern().as_usize() >= PROGRAM.len())
    })
}

/// Whether `name` is one of [`PER_REQUEST`]. One that begins with an asterisk stands for every name that
/// ends with the rest.
fn is_per_request(name: &str) -> bool {
    PER_REQUEST.iter().any(|known| match known.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == *known,
    })
}

/// Maximum characters of a client's product name.
const MAX_PRODUCT_CHARS: usize = 40;

/// Returns the product that the client's `User-Agent` names first, without its version. Empty if the
/// field begins with anything but a short name: other values may hold a key.
pub(crate) fn agent_product(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    let product = agent.unwrap_or_default().split_whitespace().next();
    let product = product.unwrap_or_default();
    let (name, has_version) = match product.rsplit_once('/') {
        Some((name, version)) if version.starts_with(|first: char| first.is_ascii_digit()) => {
            (name, true)
        }
        Some(_) | None => (product, false),
    };
    // A key has digits or is long.
    let is_part = |letter: char| match letter {
        '0'..='9' | '_' | '@' => has_version,
        letter => letter.is_ascii_alphabetic() || "-./".contains(letter),
    };
    if name.len() <= MAX_PRODUCT_CHARS && name.chars().all(is_part) {
        name.to_owned()
    } else {
        String::new()
    }
}

/// Maximum bytes of the name of a session: those of a UUID.
const MAX_SESSION_BYTES: usize = 36;

/// Headers in which Claude Code names its session and the agent within it.
static AGENT_SESSION: [HeaderName; 2] = [
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("x-claude-code-agent-id"),
];

/// Returns the session that a client states. Sub-agents share a key, and may begin with the same words.
pub(crate) fn agent_session(headers: &HeaderMap) -> Vec<&[u8]> {
    let values = AGENT_SESSION.iter().map(|name| headers.get(name));
    let values: Vec<_> = values.map(|value| value.map_or(&[][..], |it| it.as_bytes())).collect();
    if values.iter().all(|value| value.is_empty()) {
        return Vec::new();
    }
    values
}

/// Returns the session that Claude Code's main agent states. Empty for other clients and agents, or if the
/// name is longer than a UUID.
pub(crate) fn shown_session(headers: &HeaderMap) -> String {
    match agent_session(headers)[..] {
        [session, []] if session.len() <= MAX_SESSION_BYTES => {
            String::from_utf8_lossy(session).into_owned()
        }
        _ => String::new(),
    }
}

/// Returns a pseudonym of the caller with this scope: the first eight hexadecimal digits of its public
/// tag, which reveal nothing of the credentials.
pub(crate) fn pseudonym(scope: Scope) -> String {
    let [a, b, c, d, ..] = scope.tag().0;
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// Returns the names of the fields that identify a caller, sorted, so that their order in the
/// request does not matter.
///
/// Cookies are not among them. Load balancers and bot protection set new cookies with each reply
/// and clients send them back, so each change would lose the conversation's records.
///
/// `is_further` tells the names that only the settings list.
pub(crate) fn identifying_headers(
    headers: &HeaderMap,
    is_further: impl Fn(&str) -> bool,
) -> Vec<&HeaderName> {
    let is_identifying = |name: &str| identifies_caller(name) || is_further(name);
    let names = headers.keys().filter(|name| is_identifying(name.as_str()));
    let mut names: Vec<&HeaderName> = names.collect();
    names.sort_unstable_by_key(|name| name.as_str());
    names
}

/// Returns the parameters of a query string that identify a caller, sorted. `is_further` tells the names
/// that only the settings list.
pub(crate) fn identifying_parameters(
    query: Option<&str>,
    is_further: impl Fn(&str) -> bool,
) -> Vec<(String, &str)> {
    let parameters = query.unwrap_or_default().split('&');
    let parameters = parameters.filter_map(named_parameter);
    let is_identifying = |name: &str| identifies_caller(name) || is_further(name);
    let mut found: Vec<_> = parameters.filter(|(name, _)| is_identifying(name)).collect();
    found.sort();
    found
}

/// Returns the parameters of a query string that identify a caller, as sent.
pub(crate) fn identifying_query(query: Option<&str>) -> String {
    let parameters = query.unwrap_or_default().split('&');
    let identifying = parameters.filter(|parameter| {
        named_parameter(parameter).is_some_and(|(name, _)| identifies_caller(&name))
    });
    identifying.collect::<Vec<_>>().join("&")
}

/// Returns the name in lower case and the value of a parameter.
fn named_parameter(parameter: &str) -> Option<(String, &str)> {
    let (name, value) = parameter.split_once('=')?;
    let name = percent_decode_str(name).decode_utf8_lossy();
    Some((name.to_ascii_lowercase(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifying_query_keeps_credentials_as_sent() {
        let query = "api-version=1&Key=a%2Fb&stream=1&access%5Ftoken=t";
        assert_eq!(identifying_query(Some(query)), "Key=a%2Fb&access%5Ftoken=t");
        assert_eq!(identifying_query(None), "");
    }

    #[test]
    fn credentials_of_gateways_identify_a_caller_and_values_of_one_request_do_not() {
        for name in [
            "api-key",
            "apikey",
            "authorization",
            "cf-access-jwt-assertion",
            "cf-aig-authorization",
            "helicone-auth",
            "key",
            "ocp-apim-subscription-key",
            "openai-organization",
            "proxy-authorization",
            "subscription-key",
            "x-access-token",
            "x-amz-security-token",
            "x-api-key",
            "x-auth-token",
            "x-forwarded-access-token",
            "x-goog-api-key",
            "x-goog-iam-authorization-token",
            "x-goog-user-project",
            "x-litellm-api-key",
            "x-portkey-api-key",
            "x-user-id",
        ] {
            assert!(identifies_caller(name), "{name}");
        }
        for name in [
            "api-version",
            "content-length",
            "cookie",
            "idempotency-key",
            "page_token",
            "sec-websocket-key",
            "traceparent",
            "user-agent",
            "x-request-id",
        ] {
            assert!(!identifies_caller(name), "{name}");
        }
    }

    #[test]
    fn names_of_users_accounts_and_certificates_identify_a_caller() {
        for name in [
            "account",
            "helicone-user-id",
            "remote_user",
            "tailscale-user-login",
            "user_id",
            "x-account-id",
            "x-amzn-oidc-data",
            "x-amzn-oidc-identity",
            "x-bf-vk",
            "x-client-cert",
            "x-customer-id",
            "x-email",
            "x-forwarded-client-cert",
            "x-forwarded-preferred-username",
            "x-goog-iap-user",
            "x-hasura-user-id",
            "x-ms-client-principal",
            "x-ms-client-principal-name",
            "x-openwebui-user-email",
            "x-openwebui-user-id",
            "x-pomerium-claim-email",
            "x-remote-user",
            "x-ssl-client-s-dn",
            "x-team-id",
            "x-tenant",
            "x-user",
            "x-user-email",
            "x-username",
            "x_ssl_client_s_dn",
        ] {
            assert!(identifies_caller(name), "{name}");
        }
    }

    #[test]
    fn names_of_programs_and_of_single_requests_identify_no_caller() {
        for name in [
            "accept-encoding",
            "forwarded",
            "sec-ch-ua",
            "sec-fetch-user",
            "session-id",
            "x-account-request-id",
            "x-amz-user-agent",
            "x-amzn-trace-id",
            "x-codex-turn-metadata",
            "x-correlation-id",
            "x-forwarded-for",
            "x-ms-useragent",
            "x-stainless-retry-count",
            "x-user-agent",
            "x-user-message-id",
            "x-vscode-user-agent-library-version",
            "x_user_agent",
        ] {
            assert!(!identifies_caller(name), "{name}");
        }
    }

    #[test]
    fn parameters_are_found_in_any_spelling_and_order() {
        let found = identifying_parameters(
            Some("b=1&K%65y=x&api-version=2&access_token=y&token&User%5FId=z"),
            |_| false,
        );
        assert_eq!(
            found,
            [
                ("access_token".to_owned(), "y"),
                ("key".to_owned(), "x"),
                ("user_id".to_owned(), "z"),
            ]
        );
        assert!(identifying_parameters(None, |_| false).is_empty());
    }

    #[test]
    fn an_agent_is_its_product_without_a_version() {
        for (agent, expect) in [
            ("claude-cli/1.0.83 (external, cli)", "claude-cli"),
            ("OpenAI/Python 3.54.0", "OpenAI/Python"),
            ("aider", "aider"),
            ("", ""),
        ] {
            let headers = HeaderMap::from_iter([(USER_AGENT, agent.parse().unwrap())]);
            assert_eq!(agent_product(&headers), expect);
        }
        assert_eq!(agent_product(&HeaderMap::new()), "");
    }
}
