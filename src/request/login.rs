//! Logins of `ChatGPT`, by their form, and the upstreams that refuse them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName};
use serde::Deserialize;

use crate::config::{BaseUrl, CHATGPT_BASE};
use crate::request::access_keys::bearer_token;
use crate::request::scope::CREDENTIALS;

/// Header that names the account for which a login is used.
pub(crate) const ACCOUNT_HEADER: HeaderName = HeaderName::from_static("chatgpt-account-id");
const CHATGPT_HOST: &str = "chatgpt.com";

/// Whether a request carries a `ChatGPT` login and no other credential: a bearer token of three parts, and an
/// account. A request that could be read differently by two servers carries none.
pub(crate) fn is_chatgpt_login(headers: &HeaderMap) -> bool {
    let only = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    let others = CREDENTIALS.iter().filter(|name| **name != AUTHORIZATION);
    let token = only(&AUTHORIZATION).and_then(|value| bearer_token(value.as_bytes()));
    token.is_some_and(has_three_parts)
        && only(&ACCOUNT_HEADER).is_some_and(|account| !account.is_empty())
        && !others.into_iter().any(|name| headers.contains_key(name))
}

/// Whether a token has the form of a JSON Web Token (RFC 7515, 3.1). Keys of `OpenAI` and Anthropic begin with
/// `sk-`.
fn has_three_parts(token: &[u8]) -> bool {
    let is_part = |part: &[u8]| {
        let is_base64url = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !part.is_empty() && part.iter().all(is_base64url)
    };
    let mut parts = token.split(|byte| *byte == b'.');
    parts.by_ref().take(3).filter(|part| is_part(part)).count() == 3
        && parts.next().is_none()
        && !token.starts_with(b"sk-")
}

/// Returns the subject that the token of a login claims, at the host that issues and checks such tokens. A claim
/// proves nothing before this host has accepted the request.
pub(crate) fn subject(base: &BaseUrl, headers: &HeaderMap) -> Option<String> {
    let is_issuer = *base.scheme() == Scheme::HTTPS && base.authority() == CHATGPT_HOST;
    if !is_issuer || !is_chatgpt_login(headers) {
        return None;
    }
    let token = bearer_token(headers.get(AUTHORIZATION)?.as_bytes())?;
    let claims = token.split(|byte| *byte == b'.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    Some(claims.sub).filter(|subject| !subject.is_empty())
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
}

/// A credential at a host that accepts another kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WrongBase {
    /// A `ChatGPT` login at another host.
    Login,
    /// Another credential at the host of these logins.
    Key,
}

/// Returns whether the credential in `headers` has a form that the server at `base` may refuse. Only a 401 or
/// 403 shows that the server does.
pub(crate) fn wrong_base(headers: &HeaderMap, base: &BaseUrl) -> Option<WrongBase> {
    match (is_chatgpt_login(headers), base.authority().host() == CHATGPT_HOST) {
        (true, false) => Some(WrongBase::Login),
        (false, true) => Some(WrongBase::Key),
        (true, true) | (false, false) => None,
    }
}

impl WrongBase {
    /// Returns the cause of the refusal and what to do, for the operator.
    pub(crate) fn sentence(self, base: &BaseUrl) -> String {
        let origin = base.origin();
        match self {
            Self::Login => format!(
                "{origin} refuses a ChatGPT login, which belongs to {CHATGPT_BASE}; pass \
                 --upstream {CHATGPT_BASE}, or set no upstream, mount, key or client token"
            ),
            Self::Key => format!(
                "{origin} accepts a ChatGPT login, a token of three parts with \
                 ChatGPT-Account-ID, and no other credential; an API key belongs to \
                 https://api.openai.com/v1"
            ),
        }
    }
}
