//! Selects the header fields that are forwarded. Fields to drop are filtered into a new map:
//! removing a field in place would reorder the others.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, AsHeaderName, CONNECTION, CONTENT_ENCODING,
    CONTENT_LENGTH, COOKIE, EXPECT, Entry, HOST, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, response};
use http_body::Body;

use crate::request::caller_identity::identifying_headers;
use longhaul_core::dialect::Dialect;

/// Prefix of request fields that are addressed to longhaul and never forwarded.
const LONGHAUL_PREFIX: &str = "x-longhaul-";
/// Fields that contain a digest or signature of the body, or may.
static BODY_SIGNATURES: [HeaderName; 6] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("signature-input"),
    HeaderName::from_static("x-amz-content-sha256"),
];
/// Codex's fields for one request, and for one turn.
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");
const CODEX_TURN_METADATA: HeaderName = HeaderName::from_static("x-codex-turn-metadata");
const CODEX_TURN_STATE: HeaderName = HeaderName::from_static("x-codex-turn-state");
/// Field under which a server stores the answer to a request, for retries of the same request.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Copilot's field for the initiator of a request: the user or an agent's step.
const INITIATOR: HeaderName = HeaderName::from_static("x-initiator");

/// The transfer coding that delimits a body.
const CHUNKED: &[u8] = b"chunked";

/// Framing of a request's body on its way upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyFraming {
    /// Framed as by the client.
    Unchanged,
    /// Chunked: the request came by HTTP/2, which needs no field to announce a body.
    Chunked,
    /// By length in bytes: the body was buffered.
    Length(usize),
    /// By length in bytes: the body was buffered and its content coding removed.
    DecodedLength(usize),
    /// Framed as by the client, for a request to switch protocols.
    Upgrade,
}

impl BodyFraming {
    /// Returns the framing of a request whose body is streamed. Without a framing field, a body
    /// would be left out of a GET.
    pub(crate) fn for_streamed(head: &Parts, body: &impl Body) -> Self {
        let is_told = head.version != Version::HTTP_2 || head.headers.contains_key(CONTENT_LENGTH);
        if is_told || body.is_end_stream() { Self::Unchanged } else { Self::Chunked }
    }

    /// Returns the length of a body that was buffered.
    fn length(self) -> Option<usize> {
        match self {
            Self::Length(length) | Self::DecodedLength(length) => Some(length),
            Self::Unchanged | Self::Chunked | Self::Upgrade => None,
        }
    }
}

/// Spelling of `Transfer-Encoding` that some servers and gateways read as the field itself.
const TRANSFER_ENCODING_ALIAS: HeaderName = HeaderName::from_static("transfer_encoding");

/// Whether the end of the request's body is read alike by every server: without transfer codings,
/// or with exactly one field `Transfer-Encoding: chunked`.
pub(crate) fn is_clearly_framed(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked =
        codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(CHUNKED));
    is_chunked && codings.next().is_none() && !headers.contains_key(TRANSFER_ENCODING_ALIAS)
}

/// Whether the request asks to switch to one of `protocols`. Only HTTP/1.1 can do so. A POST may
/// get a normal answer first, which a server is free to send. A request for another protocol is
/// served without the switch: curl offers h2c with every request.
pub(crate) fn is_upgrade_request<B>(request: &Request<B>, protocols: &[String]) -> bool {
    request.version() == Version::HTTP_11
        && request.method() == Method::GET
        && request.headers().contains_key(UPGRADE)
        && list_elements(request.headers(), UPGRADE).all(|offered| {
            protocols.iter().any(|protocol| offered.eq_ignore_ascii_case(protocol.as_bytes()))
        })
        && connection_options(request.headers())
            .any(|option| option.eq_ignore_ascii_case("upgrade"))
}

fn list_elements(all: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &[u8]> {
    let values = all.get_all(name).into_iter();
    let elements = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    elements.map(<[u8]>::trim_ascii)
}

/// Returns the request's fields for the upstream, in their order; `Host` names the upstream.
pub(crate) fn request(head: &Parts, host: &HeaderValue, framing: BodyFraming) -> HeaderMap {
    let named = connection_fields(&head.headers);
    let mut kept = HeaderMap::with_capacity(head.headers.keys_len() + 2);
    if !head.headers.contains_key(HOST) {
        kept.append(HOST, host.clone());
    }
    for (name, value) in &head.headers {
        if name == HOST {
            if let Entry::Vacant(vacant) = kept.entry(HOST) {
                vacant.insert(host.clone());
            }
        } else if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
            match framing.length() {
                None => _ = kept.append(name, value.clone()),
                Some(length) => set_length(&mut kept, length),
            }
        } else if name == TE {
            if accepts_trailers(value) && !kept.contains_key(TE) {
                kept.append(TE, HeaderValue::from_static("trailers"));
            }
        } else if is_forwarded(name, &named, framing) {
            kept.append(name, value.clone());
        }
    }
    if head.version == Version::HTTP_2 {
        join_cookies(&mut kept);
    }
    if let Some(length) = framing.length() {
        set_length(&mut kept, length);
    } else if let BodyFraming::Chunked = framing {
        kept.append(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    kept
}

/// Returns `headers` without the field `ours`, which is addressed to longhaul.
pub(crate) fn without_field(headers: &HeaderMap, ours: &HeaderName) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| *name != ours);
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the fields of a retry. A retry has another body, and under the idempotency key of the
/// first request it would get the first answer.
pub(crate) fn for_retry(headers: HeaderMap) -> HeaderMap {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        without_field(&headers, &IDEMPOTENCY_KEY)
    } else {
        headers
    }
}

/// Whether to forward a field other than framing fields, `Host` and `TE`.
fn is_forwarded(name: &HeaderName, named: &HashSet<HeaderName>, framing: BodyFraming) -> bool {
    if matches!(framing, BodyFraming::Upgrade) && (name == CONNECTION || name == UPGRADE) {
        return true;
    }
    if matches!(framing, BodyFraming::DecodedLength(_)) && name == CONTENT_ENCODING {
        return false;
    }
    name != EXPECT && !name.as_str().starts_with(LONGHAUL_PREFIX) && !is_hop_by_hop(name, named)
}

/// Joins cookies into one field. HTTP/2 may send each cookie in its own field; HTTP/1.1 has
/// one field for all (RFC 9113, 8.2.3).
fn join_cookies(kept: &mut HeaderMap) {
    let cookies = kept.get_all(COOKIE).iter();
    let cookies: Vec<&[u8]> = cookies.map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        kept.insert(COOKIE, joined);
    }
}

/// Sets `Content-Length` unless it is set already, so that it takes the place of the first framing
/// field.
fn set_length(kept: &mut HeaderMap, length: usize) {
    if let Entry::Vacant(vacant) = kept.entry(CONTENT_LENGTH) {
        vacant.insert(HeaderValue::from(length));
    }
}

/// Returns the reply's fields for the client, in their order. Transfer codings override a
/// `Content-Length` (RFC 9112, 6.3). A body that was delimited by the end of its
/// connection is forwarded in chunks.
pub(crate) fn reply(head: &response::Parts, towards: Version) -> HeaderMap {
    let names_protocols =
        matches!(head.status, StatusCode::SWITCHING_PROTOCOLS | StatusCode::UPGRADE_REQUIRED);
    let named = connection_fields(&head.headers);
    let is_framed = head.headers.contains_key(TRANSFER_ENCODING);
    let last = transfer_codings(&head.headers).last();
    let keeps_codings = towards == Version::HTTP_11 && last.is_some();
    let mut kept = HeaderMap::with_capacity(head.headers.keys_len());
    for (name, value) in &head.headers {
        let passes = if name == TRANSFER_ENCODING {
            keeps_codings
        } else if name == CONTENT_LENGTH {
            !is_framed
        } else if name == CONNECTION || name == UPGRADE {
            names_protocols
        } else {
            !is_hop_by_hop(name, &named)
        };
        if passes {
            kept.append(name, value.clone());
        }
    }
    if keeps_codings && last.is_some_and(|last| !last.eq_ignore_ascii_case(CHUNKED)) {
        kept.append(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    kept
}

/// Whether the codings of a reply can be passed on to a client of HTTP version `towards`.
///
/// `chunked` comes once, as the last: other servers see another end of the body. Other codings need
/// HTTP/1.1, since other versions have no field for them.
pub(crate) fn reply_codings_pass(all: &HeaderMap, towards: Version) -> bool {
    let is_chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(CHUNKED);
    let mut listed = list_elements(all, TRANSFER_ENCODING);
    let first_chunked = listed.by_ref().position(|coding| is_chunked(&coding));
    let is_last = first_chunked.is_none() || listed.next().is_none();
    let has_others = transfer_codings(all).any(|coding| !is_chunked(&coding));
    is_last && (towards == Version::HTTP_11 || !has_others)
}

/// Returns the transfer codings of a body, in the order in which they were applied, without
/// `identity`.
fn transfer_codings(all: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    list_elements(all, TRANSFER_ENCODING)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether a body has a transfer coding other than the chunked framing.
pub(crate) fn is_transfer_coded(all: &HeaderMap) -> bool {
    let mut codings = transfer_codings(all);
    let is_plain = codings.next().is_none_or(|first| first.eq_ignore_ascii_case(CHUNKED));
    !is_plain || codings.next().is_some()
}

/// Whether a field concerns this connection only (RFC 9110, 7.6.1). `Proxy-Authenticate` and
/// `Proxy-Authorization` do not: they are between a client and a forward proxy, and longhaul is not
/// a forward proxy.
fn is_hop_by_hop(name: &HeaderName, named: &HashSet<HeaderName>) -> bool {
    matches!(name.as_str(), "connection" | "keep-alive" | "proxy-connection" | "upgrade")
        || (name != CONTENT_LENGTH && named.contains(name))
}

/// Returns the fields of a summary request, without those that belong to the client's own request:
///
/// - Under the client's idempotency key, the summary call would get the first call's answer.
/// - The body of a summary call has no content coding.
/// - longhaul does not read a compressed reply to it.
/// - Codex names the turn of its own request, by which the provider may choose a server.
///
/// If the client names an initiator, it becomes `agent`: Copilot bills a turn of the user.
pub(crate) fn for_summary(headers: &HeaderMap) -> HeaderMap {
    let own = [
        CODEX_TURN_METADATA,
        CODEX_TURN_STATE,
        CLIENT_REQUEST_ID,
        ACCEPT_ENCODING,
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        IDEMPOTENCY_KEY,
        TE,
        TRANSFER_ENCODING,
    ];
    let kept = headers.iter().filter(|(name, _)| !own.contains(name));
    let of_ours = |(name, value): (&HeaderName, &HeaderValue)| {
        let value =
            if *name == INITIATOR { HeaderValue::from_static("agent") } else { value.clone() };
        (name.clone(), value)
    };
    kept.map(of_ours).collect()
}

/// Adds the header that `dialect` requires beside the provider's own compaction.
pub(crate) fn add_compaction_header(dialect: Dialect, headers: &mut HeaderMap) {
    let Some((name, value)) = dialect.facts().compaction_header else {
        return;
    };
    if !list_elements(headers, name).any(|feature| feature == value.as_bytes()) {
        headers.append(name, HeaderValue::from_static(value));
    }
}

/// Returns the fields of a query by longhaul itself: the caller's credentials, and nothing else
/// from the caller.
pub(crate) fn for_model_query(headers: &HeaderMap, host: &HeaderValue) -> HeaderMap {
    let mut asking = HeaderMap::new();
    asking.insert(HOST, host.clone());
    asking.insert(ACCEPT, HeaderValue::from_static("application/json"));
    for name in identifying_headers(headers, |_| false) {
        for value in headers.get_all(name) {
            asking.append(name, value.clone());
        }
    }
    asking
}

/// Whether the request bears a person's login instead of a key, which a provider accepts from its own
/// client only.
pub(crate) fn bears_client_login(headers: &HeaderMap) -> bool {
    let bearer = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let token = bearer.and_then(|value| value.strip_prefix(b"Bearer "));
    token.is_some_and(Dialect::is_client_login)
}

/// Whether the request is signed over its body, so that a change would invalidate the signature.
pub(crate) fn is_signed(headers: &HeaderMap) -> bool {
    BODY_SIGNATURES.iter().any(|name| headers.contains_key(name)) || has_host_signature(headers)
}

/// Whether the request is signed over its body and its host.
pub(crate) fn has_host_signature(headers: &HeaderMap) -> bool {
    headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"AWS4-"))
}

/// Returns the present fields that `Connection` names. `Connection` may list very many, and is
/// parsed once for all fields. Its usual values, `keep-alive` and `close`, name no field.
fn connection_fields(all: &HeaderMap) -> HashSet<HeaderName> {
    connection_options(all)
        .filter(|option| all.contains_key(*option))
        .filter_map(|option| HeaderName::from_bytes(option.as_bytes()).ok())
        .collect()
}

fn connection_options(all: &HeaderMap) -> impl Iterator<Item = &str> {
    all.get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|option| !option.is_empty())
}

fn accepts_trailers(te: &HeaderValue) -> bool {
    te.to_str()
        .is_ok_and(|te| te.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("trailers")))
}
