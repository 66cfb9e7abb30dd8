//! Which header fields go on to the next hop. Fields to drop are filtered into a new map: removing
//! one in place would change the order of the others.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, COOKIE,
    EXPECT, Entry, HOST, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, response};
use http_body::Body;

/// Request fields with it are for us and nobody else.
const LONGHAUL_PREFIX: &str = "x-longhaul-";
/// What is made of the body, or may be.
static BODY_SIGNATURES: [HeaderName; 6] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("signature-input"),
    HeaderName::from_static("x-amz-content-sha256"),
];
/// Under which a server keeps the answer to a request, for another try of the same.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Whether a user's words or an agent's step began a request, to Copilot.
const INITIATOR: HeaderName = HeaderName::from_static("x-initiator");

/// The transfer coding that says where a body ends.
const CHUNKED: &[u8] = b"chunked";

/// How a request goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum BodyFraming {
    /// Its body framed as the client did it.
    Unchanged,
    /// In chunks: HTTP/2, in which it came, needs no field to say that there is a body.
    Chunked,
    /// Its body was read whole: framed by its length in bytes.
    Length(usize),
    /// Its body was read whole and goes on without the coding it came in: framed by its length in
    /// bytes.
    DecodedLength(usize),
    /// Asking for another protocol, its body framed as the client did it.
    Upgrade,
}

impl BodyFraming {
    /// How a request goes on whose body passes as it comes. Without a word of its framing a body would
    /// be left out of a GET.
    pub(super) fn for_streamed(head: &Parts, body: &impl Body) -> Self {
        let is_told = head.version != Version::HTTP_2 || head.headers.contains_key(CONTENT_LENGTH);
        if is_told || body.is_end_stream() {
            Self::Unchanged
        } else {
            Self::Chunked
        }
    }
}

/// Whether the request asks to leave HTTP. Only HTTP/1.1 can ask so; one that posts something asks
/// for an answer first (curl offers h2c with every request), which a server may give.
pub(super) fn is_upgrade_request<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_11
        && request.method() == Method::GET
        && request.headers().contains_key(UPGRADE)
        && connection_options(request.headers())
            .any(|option| option.eq_ignore_ascii_case("upgrade"))
}

/// The request's fields as the upstream gets them, in their order; Host is the upstream's.
pub(super) fn request(head: &Parts, host: &HeaderValue, hop: BodyFraming) -> HeaderMap {
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
            match hop {
                BodyFraming::Unchanged | BodyFraming::Chunked | BodyFraming::Upgrade => {
                    _ = kept.append(name, value.clone())
                }
                BodyFraming::Length(length) | BodyFraming::DecodedLength(length) => {
                    set_length(&mut kept, length)
                }
            }
        } else if name == TE {
            if accepts_trailers(value) && !kept.contains_key(TE) {
                kept.append(TE, HeaderValue::from_static("trailers"));
            }
        } else if is_forwarded(name, &named, hop) {
            kept.append(name, value.clone());
        }
    }
    if head.version == Version::HTTP_2 {
        join_cookies(&mut kept);
    }
    match hop {
        BodyFraming::Unchanged | BodyFraming::Upgrade => {}
        BodyFraming::Chunked => {
            _ = kept.append(TRANSFER_ENCODING, HeaderValue::from_static("chunked"))
        }
        BodyFraming::Length(length) | BodyFraming::DecodedLength(length) => {
            set_length(&mut kept, length)
        }
    }
    kept
}

/// The same fields without one that is for us.
pub(super) fn without_field(headers: &HeaderMap, ours: &HeaderName) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| *name != ours);
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The fields of a second request: it has another body than the first, and under that one's key it
/// would get that one's answer.
pub(super) fn for_retry(headers: HeaderMap) -> HeaderMap {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        without_field(&headers, &IDEMPOTENCY_KEY)
    } else {
        headers
    }
}

/// Whether a request field that is no framing, Host or TE goes on.
fn is_forwarded(name: &HeaderName, named: &HashSet<HeaderName>, hop: BodyFraming) -> bool {
    if matches!(hop, BodyFraming::Upgrade) && (name == CONNECTION || name == UPGRADE) {
        return true;
    }
    if matches!(hop, BodyFraming::DecodedLength(_)) && name == CONTENT_ENCODING {
        return false;
    }
    name != EXPECT && !name.as_str().starts_with(LONGHAUL_PREFIX) && !is_hop_by_hop(name, named)
}

/// HTTP/2 may send each cookie in a field of its own, and HTTP/1.1 has one field for all of them
/// (RFC 9113, 8.2.3).
fn join_cookies(kept: &mut HeaderMap) {
    let cookies: Vec<&[u8]> = kept
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        kept.insert(COOKIE, joined);
    }
}

/// Sets Content-Length where it is not set yet, and so where the first framing field stood.
fn set_length(kept: &mut HeaderMap, length: usize) {
    if let Entry::Vacant(vacant) = kept.entry(CONTENT_LENGTH) {
        vacant.insert(HeaderValue::from(length));
    }
}

/// The reply's fields as the client gets them, in their order. Its transfer codings say more of its
/// length than `Content-Length` beside them (RFC 9112, 6.3), and a body that only the end of its
/// connection ended goes on in chunks.
pub(super) fn reply(head: &response::Parts, towards: Version) -> HeaderMap {
    let names_protocols = matches!(
        head.status,
        StatusCode::SWITCHING_PROTOCOLS | StatusCode::UPGRADE_REQUIRED
    );
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

/// The transfer codings of a body, in the order in which they were applied; `identity` is none.
fn transfer_codings(all: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    all.get_all(TRANSFER_ENCODING)
        .into_iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether a body is in another transfer coding than the chunks that say where it ends.
pub(super) fn is_transfer_coded(all: &HeaderMap) -> bool {
    let mut codings = transfer_codings(all);
    let is_plain = codings
        .next()
        .is_none_or(|first| first.eq_ignore_ascii_case(CHUNKED));
    !is_plain || codings.next().is_some()
}

/// Whether a field is about this connection only (RFC 9110, 7.6.1). Proxy-Authenticate and
/// Proxy-Authorization are not: they are between a client and a forward proxy, which this is not.
fn is_hop_by_hop(name: &HeaderName, named: &HashSet<HeaderName>) -> bool {
    matches!(
        name.as_str(),
        "connection" | "keep-alive" | "proxy-connection" | "upgrade"
    ) || (name != CONTENT_LENGTH && named.contains(name))
}

/// Takes out what belongs to the client's own request and not to a summary's: a second request
/// under its idempotency key would get the first one's answer, its body is in no coding, and a
/// compressed reply to it is not read. Where the client says who began it, nobody did here: Copilot
/// has a turn of the user's paid for.
pub(super) fn for_summary(headers: &HeaderMap) -> HeaderMap {
    let own = [
        ACCEPT_ENCODING,
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        IDEMPOTENCY_KEY,
        TE,
        TRANSFER_ENCODING,
    ];
    let kept = headers.iter().filter(|(name, _)| !own.contains(name));
    let of_ours = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = if *name == INITIATOR {
            HeaderValue::from_static("agent")
        } else {
            value.clone()
        };
        (name.clone(), value)
    };
    kept.map(of_ours).collect()
}

/// The fields of a question of our own: the caller's credentials, and nothing else of the caller's.
pub(super) fn for_model_query(headers: &HeaderMap, host: &HeaderValue) -> HeaderMap {
    let mut asking = HeaderMap::new();
    asking.insert(HOST, host.clone());
    asking.insert(ACCEPT, HeaderValue::from_static("application/json"));
    for name in super::scope::identifying_headers() {
        for value in headers.get_all(name) {
            asking.append(name, value.clone());
        }
    }
    asking
}

/// Whether a request is signed over its body, which a change would void.
pub(super) fn is_signed(headers: &HeaderMap) -> bool {
    BODY_SIGNATURES
        .iter()
        .any(|name| headers.contains_key(name))
        || headers
            .get(AUTHORIZATION)
            .is_some_and(|value| value.as_bytes().starts_with(b"AWS4-"))
}

/// Those of the fields that Connection names. It may list very many, and is read once for all
/// fields; what it mostly says, `keep-alive` or `close`, names none.
fn connection_fields(all: &HeaderMap) -> HashSet<HeaderName> {
    connection_options(all)
        .filter(|option| all.contains_key(*option))
        .filter_map(|option| HeaderName::from_bytes(option.as_bytes()).ok())
        .collect()
}

/// What Connection lists.
fn connection_options(all: &HeaderMap) -> impl Iterator<Item = &str> {
    all.get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|option| !option.is_empty())
}

fn accepts_trailers(te: &HeaderValue) -> bool {
    te.to_str().is_ok_and(|te| {
        te.split(',')
            .any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
    })
}
