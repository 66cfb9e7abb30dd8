//! Maps a request's path to a path of the upstream.

use std::borrow::Cow;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, Request, Uri};

use crate::config::BaseUrl;
use crate::error::Fault;
use longhaul_core::dialect::Dialect;

/// Prefix of longhaul's own paths; every other path belongs to the upstream.
const RESERVED_PREFIX: &str = "/__longhaul__";

/// Path for explicit compaction. [`RECALL_PATH`](crate::limits::RECALL_PATH) is the other one.
pub(crate) const COMPACT_PATH: &str = "/__longhaul__/compact";

/// First path segments of the API of `OpenAI`, `OpenRouter` and compatible servers. A path that
/// begins with one of these, without the base's path, gets the base's path prepended.
const API_SEGMENTS: &[&str] = &[
    "/assistants",
    "/audio",
    "/batches",
    "/chat",
    "/completions",
    "/containers",
    "/conversations",
    "/credits",
    "/embeddings",
    "/evals",
    "/files",
    "/fine_tuning",
    "/generation",
    "/images",
    "/key",
    "/keys",
    "/messages",
    "/models",
    "/moderations",
    "/organization",
    "/providers",
    "/realtime",
    "/rerank",
    "/responses",
    "/threads",
    "/uploads",
    "/vector_stores",
    "/videos",
];

/// Maps a requested target to the upstream's target. Everything that is not replaced stays byte for
/// byte: query, percent-encoding, double slashes.
///
/// The first rule that applies wins:
///
/// 1. A base without a path leaves every path unchanged.
/// 2. A path that begins with the base's path stays unchanged.
/// 3. `/v1/…` and the API's own paths are joined to the base.
/// 4. Any other path is requested at the base's origin.
///
/// # Errors
/// [`Fault::ReservedPath`] for a path of longhaul's own, [`Fault::InvalidTarget`] if path and base form no valid URL.
pub(crate) fn map(base: &BaseUrl, asked: &PathAndQuery) -> Result<PathAndQuery, Fault> {
    let path = asked.path();
    if is_under(path, RESERVED_PREFIX) {
        return Err(Fault::ReservedPath);
    }
    if base.path().is_empty() || is_under(path, base.path()) {
        return Ok(asked.clone());
    }
    let text = asked.as_str();
    let rest = if is_under(path, "/v1/messages") && !base.path().ends_with("/v1") {
        // Clients of the Messages API append the version to the base that they are given.
        text
    } else if is_under(path, "/v1") {
        text.get("/v1".len()..).unwrap_or_default()
    } else if API_SEGMENTS.iter().any(|api| is_under(path, api)) {
        text
    } else {
        return Ok(asked.clone());
    };
    format!("{}{rest}", base.path())
        .parse()
        .map_err(|_| Fault::InvalidTarget)
}

/// Returns the target without `mount` at the beginning of its path; `None` if the path is not under
/// `mount`. Paths are compared without normalisation: a path that is encoded differently, or leads
/// there by dots, is left to the general upstream.
pub(crate) fn strip_mount(target: &Uri, mount: &str) -> Option<Uri> {
    if !is_under(target.path(), mount) {
        return None;
    }
    let rest = target.path_and_query()?.as_str().get(mount.len()..)?;
    let rest = if rest.starts_with('/') {
        rest.parse()
    } else {
        format!("/{rest}").parse()
    };
    let mut parts = target.clone().into_parts();
    // The end of a parsed path, from a slash on, parses too. If it ever does not, the request still
    // belongs to the mount.
    parts.path_and_query = Some(rest.unwrap_or_else(|_| PathAndQuery::from_static("/")));
    Some(Uri::from_parts(parts).unwrap_or_default())
}

/// Header of every request by a client of the Messages API.
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// Header of requests for features that no other API has.
const ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// Whether a request belongs to the Messages API. Threads of OpenAI's assistants have messages too,
/// under a path of their own.
pub(crate) fn is_messages_request<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let headers = request.headers();
    is_under(path, "/messages")
        || headers.contains_key(ANTHROPIC_VERSION)
        || has_anthropic_credential(headers)
        // Gateways accept this header with chats of other APIs.
        || (headers.contains_key(ANTHROPIC_BETA)
            && Dialect::of_path(request.uri().path()).is_none())
}

/// Whether a request bears a key or a login that Anthropic issued. No other upstream may receive it.
fn has_anthropic_credential(headers: &HeaderMap) -> bool {
    let issued = |value: &[u8]| value.starts_with(b"sk-ant-");
    let bearer = |value: &[u8]| {
        let (scheme, token) = value.split_at_checked(b"Bearer ".len()).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"Bearer ") && issued(token.trim_ascii_start())
    };
    let values = |name| headers.get_all(name).into_iter();
    values("x-api-key").any(|value| issued(value.as_bytes()))
        || values("authorization").any(|value| bearer(value.as_bytes()))
}

/// Returns the API route of a path, for labels that must not grow with the requests. The route is
/// the first segment that belongs to the API. If more follows, which may be an arbitrary id, `/*`
/// stands for the rest.
pub(crate) fn api_route(path: &str) -> Option<Cow<'static, str>> {
    if path == COMPACT_PATH {
        return Some(COMPACT_PATH.into());
    }
    let slashes = path.match_indices('/');
    slashes.into_iter().find_map(|(at, _)| {
        let rest = path.get(at..)?;
        let api = API_SEGMENTS.iter().find(|api| is_under(rest, api))?;
        Some(if rest.len() == api.len() {
            Cow::Borrowed(*api)
        } else {
            format!("{api}/*").into()
        })
    })
}

/// Whether `path` equals `prefix` or lies under it.
fn is_under(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, asked: &str, expect: &str) {
        let base = BaseUrl::parse(base).unwrap();
        let mapped = map(&base, &asked.parse().unwrap()).unwrap();
        assert_eq!(mapped.as_str(), expect, "{base} + {asked}");
    }

    #[test]
    fn every_request_with_a_credential_of_anthropic_belongs_to_messages() {
        let is_messages = |path: &str, name: &str, value: &str| {
            let request = Request::get(path).header(name, value).body(()).unwrap();
            is_messages_request(&request)
        };
        for (name, value) in [
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "files-api-2025-04-14"),
            ("authorization", "Bearer sk-ant-oat01-x"),
            ("x-api-key", "sk-ant-api03-x"),
        ] {
            assert!(is_messages("/v1/files", name, value), "{name}");
        }
        assert!(is_messages("/v1/messages", "x-api-key", "k"));
        assert!(!is_messages(
            "/v1/files",
            "authorization",
            "Bearer sk-proj-x"
        ));
        assert!(!is_messages("/v1/threads/t/messages", "x-api-key", "k"));
        let chat = "/v1/chat/completions";
        assert!(!is_messages(
            chat,
            "anthropic-beta",
            "context-1m-2025-08-07"
        ));
    }

    const ROUTER: &str = "https://openrouter.ai/api/v1";

    #[test]
    fn a_base_without_a_path_leaves_every_path() {
        check(
            "http://127.0.0.1:8000",
            "/v1/chat/completions",
            "/v1/chat/completions",
        );
        check(
            "http://127.0.0.1:8000/",
            "/chat/completions",
            "/chat/completions",
        );
        check("http://127.0.0.1:8000", "/", "/");
        check("http://127.0.0.1:8000", "*", "*");
    }

    #[test]
    fn path_under_the_base_path_is_unchanged() {
        check(
            ROUTER,
            "/api/v1/chat/completions",
            "/api/v1/chat/completions",
        );
        check(ROUTER, "/api/v1", "/api/v1");
        check(
            "https://api.openai.com/v1",
            "/v1/models?x=1",
            "/v1/models?x=1",
        );
    }

    #[test]
    fn v1_and_bare_api_paths_are_joined_to_the_base() {
        check(ROUTER, "/v1/chat/completions", "/api/v1/chat/completions");
        check(ROUTER, "/v1/anything/at/all", "/api/v1/anything/at/all");
        check(
            ROUTER,
            "/chat/completions?a=/v1",
            "/api/v1/chat/completions?a=/v1",
        );
        check(
            ROUTER,
            "/models/openai%2Fgpt",
            "/api/v1/models/openai%2Fgpt",
        );
        check(ROUTER, "/v1?x", "/api/v1?x");
        check("https://api.openai.com/v1", "/embeddings", "/v1/embeddings");
    }

    #[test]
    fn other_paths_are_sent_to_the_origin_unchanged() {
        check(ROUTER, "/health", "/health");
        check(ROUTER, "/v10/models", "/v10/models");
        check(ROUTER, "/modelsx", "/modelsx");
        check(ROUTER, "/api/v1x", "/api/v1x");
        check(ROUTER, "//v1/models", "//v1/models");
    }

    #[test]
    fn encoding_and_double_slashes_stay_byte_for_byte() {
        check(
            ROUTER,
            "/v1//files/%7e%2F/?q=%20&&b",
            "/api/v1//files/%7e%2F/?q=%20&&b",
        );
    }

    #[test]
    fn strips_only_the_mount_path() {
        let check = |asked: &str, expect: Option<&str>| {
            let rest = strip_mount(&asked.parse().unwrap(), "/a");
            assert_eq!(
                rest.map(|rest| rest.to_string()).as_deref(),
                expect,
                "{asked}"
            );
        };
        check(
            "/a/v1/chat/completions?x=/a",
            Some("/v1/chat/completions?x=/a"),
        );
        check("/a", Some("/"));
        check("/a?x", Some("/?x"));
        check("/a/", Some("/"));
        check("/a//v1/%7e%2F/?q=%20&&b", Some("//v1/%7e%2F/?q=%20&&b"));
        check("/a/../b/v1", Some("/../b/v1"));
        check("/a/a/v1", Some("/a/v1"));
        check("http://h:1/a/v1", Some("http://h:1/v1"));
        for elsewhere in [
            "/",
            "/ab/v1",
            "//a/v1",
            "/A/v1",
            "/%61/v1",
            "/b/../a/v1",
            "/v1?/a/",
            "*",
            "h:1",
        ] {
            check(elsewhere, None);
        }
    }

    #[test]
    fn reserved_paths_are_not_forwarded() {
        let base = BaseUrl::parse(ROUTER).unwrap();
        for path in ["/__longhaul__", "/__longhaul__/compact?x"] {
            assert_eq!(map(&base, &path.parse().unwrap()), Err(Fault::ReservedPath));
        }
        check(ROUTER, "/__longhaul__x", "/__longhaul__x");
    }

    #[test]
    fn api_route_contains_no_id() {
        for (path, expect) in [
            ("/v1/models", Some("/models")),
            ("/models", Some("/models")),
            ("/api/v1/models/openai/gpt-5", Some("/models/*")),
            ("/v1/responses/resp_1/input_items", Some("/responses/*")),
            ("/openai/deployments/own/embeddings", Some("/embeddings")),
            ("/v1/chat/completions", Some("/chat/*")),
            ("/__longhaul__/compact", Some("/__longhaul__/compact")),
            ("/v1/somebody/1", None),
            ("/v1/modelsettings", None),
            ("*", None),
        ] {
            assert_eq!(api_route(path).as_deref(), expect, "{path}");
        }
    }
}
