//! Maps a request's path to a path of the upstream.

use std::borrow::Cow;

use http::uri::PathAndQuery;
use http::{Request, Uri};

use crate::config::BaseUrl;
use crate::error::Fault;
use crate::request::listed;
use longhaul_core::dialect::Dialect;

/// Prefix of longhaul's own paths; every other path belongs to the upstream.
const RESERVED_PREFIX: &str = "/__longhaul__";

/// Path for explicit compaction. [`RECALL_PATH`](crate::limits::RECALL_PATH) is the other one.
pub(crate) const COMPACT_PATH: &str = "/__longhaul__/compact";

/// First path segments of the API of `OpenAI`, `OpenRouter` and compatible servers, without those
/// of the dialects.
const API_SEGMENTS: &str = include_str!("data/api_segments.txt");

/// Returns the first path segments of the APIs. A path that begins with one of these, without the
/// base's path, gets the base's path prepended.
fn api_segments() -> impl Iterator<Item = &'static str> {
    let chats = Dialect::ALL.into_iter().map(Dialect::first_segment);
    chats.chain(listed(API_SEGMENTS))
}

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
pub(crate) fn map(base: &BaseUrl, requested: &PathAndQuery) -> Result<PathAndQuery, Fault> {
    let path = requested.path();
    if is_under(path, RESERVED_PREFIX) {
        return Err(Fault::ReservedPath);
    }
    if base.path().is_empty() || is_under(path, base.path()) {
        return Ok(requested.clone());
    }
    let text = requested.as_str();
    let has_own_version = Dialect::ALL.iter().any(|dialect| {
        let path_of_clients = dialect.facts().distinct_path;
        path_of_clients.starts_with("/v1/") && is_under(path, path_of_clients)
    });
    let rest = if has_own_version && !base.path().ends_with("/v1") {
        // The API's clients append the version to the base that they are given.
        text
    } else if is_under(path, "/v1") {
        text.get("/v1".len()..).unwrap_or_default()
    } else if api_segments().any(|api| is_under(path, api)) {
        text
    } else {
        return Ok(requested.clone());
    };
    format!("{}{rest}", base.path()).parse().map_err(|_| Fault::InvalidTarget)
}

/// Returns the target without `mount` at the beginning of its path; `None` if the path is not under
/// `mount`. Paths are compared without normalisation: a path that is encoded differently, or leads
/// there by dots, is left to the general upstream.
pub(crate) fn strip_mount(target: &Uri, mount: &str) -> Option<Uri> {
    if !is_under(target.path(), mount) {
        return None;
    }
    let rest = target.path_and_query()?.as_str().get(mount.len()..)?;
    let rest = if rest.starts_with('/') { rest.parse() } else { format!("/{rest}").parse() };
    let mut parts = target.clone().into_parts();
    // The end of a parsed path, from a slash on, parses too. If it ever does not, the request still
    // belongs to the mount.
    parts.path_and_query = Some(rest.unwrap_or_else(|_| PathAndQuery::from_static("/")));
    Some(Uri::from_parts(parts).unwrap_or_default())
}

/// Whether a request belongs to an API that the operator may give its own upstream.
pub(crate) fn belongs_to_own_upstream<B>(request: &Request<B>) -> bool {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
    Dialect::belongs_to_own_upstream(request.uri().path(), headers)
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
        let api = api_segments().find(|api| is_under(rest, api))?;
        Some(if rest.len() == api.len() { Cow::Borrowed(api) } else { format!("{api}/*").into() })
    })
}

/// Whether `path` equals `prefix` or lies under it.
fn is_under(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, requested: &str, expect: &str) {
        let base = BaseUrl::parse(base).unwrap();
        let mapped = map(&base, &requested.parse().unwrap()).unwrap();
        assert_eq!(mapped.as_str(), expect, "{base} + {requested}");
    }

    const ROUTER: &str = "https://openrouter.ai/api/v1";

    #[test]
    fn a_base_without_a_path_leaves_every_path() {
        check("http://127.0.0.1:8000", "/v1/chat/completions", "/v1/chat/completions");
        check("http://127.0.0.1:8000/", "/chat/completions", "/chat/completions");
        check("http://127.0.0.1:8000", "/", "/");
        check("http://127.0.0.1:8000", "*", "*");
    }

    #[test]
    fn path_under_the_base_path_is_unchanged() {
        check(ROUTER, "/api/v1/chat/completions", "/api/v1/chat/completions");
        check(ROUTER, "/api/v1", "/api/v1");
        check("https://api.openai.com/v1", "/v1/models?x=1", "/v1/models?x=1");
    }

    #[test]
    fn v1_and_bare_api_paths_are_joined_to_the_base() {
        check(ROUTER, "/v1/chat/completions", "/api/v1/chat/completions");
        check(ROUTER, "/v1/anything/at/all", "/api/v1/anything/at/all");
        check(ROUTER, "/chat/completions?a=/v1", "/api/v1/chat/completions?a=/v1");
        check(ROUTER, "/models/openai%2Fgpt", "/api/v1/models/openai%2Fgpt");
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
        check(ROUTER, "/v1//files/%7e%2F/?q=%20&&b", "/api/v1//files/%7e%2F/?q=%20&&b");
    }

    #[test]
    fn strips_only_the_mount_path() {
        let check = |requested: &str, expect: Option<&str>| {
            let rest = strip_mount(&requested.parse().unwrap(), "/a");
            assert_eq!(rest.map(|rest| rest.to_string()).as_deref(), expect, "{requested}");
        };
        check("/a/v1/chat/completions?x=/a", Some("/v1/chat/completions?x=/a"));
        check("/a", Some("/"));
        check("/a?x", Some("/?x"));
        check("/a/", Some("/"));
        check("/a//v1/%7e%2F/?q=%20&&b", Some("//v1/%7e%2F/?q=%20&&b"));
        check("/a/../b/v1", Some("/../b/v1"));
        check("/a/a/v1", Some("/a/v1"));
        check("http://h:1/a/v1", Some("http://h:1/v1"));
        for elsewhere in
            ["/", "/ab/v1", "//a/v1", "/A/v1", "/%61/v1", "/b/../a/v1", "/v1?/a/", "*", "h:1"]
        {
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
