//! Paths that receive the upstream key of the settings.
//!
//! An origin may serve several tenants, and an API may manage keys, files and billing. A key that
//! longhaul adds therefore goes only to endpoints of `upstream.base` that run models.

use percent_encoding::percent_decode_str;

use crate::config::BaseUrl;
use crate::request::listed;
use longhaul_core::dialect::Dialect;

/// Endpoints that run or list models and those that agents need with them, in addition to the
/// dialects' own.
const ENDPOINTS: &str = include_str!("data/key_endpoints.txt");

/// Rounds of percent-decoding after which a path must not change any more. Servers and the
/// gateways in front of them may each decode once.
const MAX_DECODINGS: usize = 3;

/// The endpoints under a base that receive the key.
#[derive(Clone)]
pub(crate) struct KeyPaths {
    base: String,
    /// Patterns of `upstream.key_paths`, each without a slash at the beginning.
    more: Vec<String>,
}

impl KeyPaths {
    pub(crate) fn new(base: &BaseUrl, more: &[String]) -> Self {
        let more = more.iter().map(|path| path.trim().trim_matches('/'));
        Self { base: base.path().to_owned(), more: more.map(str::to_owned).collect() }
    }

    /// Whether the key goes to the upstream's path `path`. A path qualifies only if every way to
    /// read it names such an endpoint. The ways are the plain bytes, and each round of
    /// percent-decoding with dots, backslashes and parameters resolved.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(&*self.base) else {
            return false;
        };
        let literal: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        if !rest.starts_with('/') || !self.is_endpoint(&literal) {
            return false;
        }
        let mut text = path.to_owned();
        for _ in 0..=MAX_DECODINGS {
            if !self.resolves_to_endpoint(&text) {
                return false;
            }
            match percent_decode_str(&text).decode_utf8() {
                Ok(decoded) if decoded == text => return true,
                Ok(decoded) => text = decoded.into_owned(),
                Err(_) => return false,
            }
        }
        false
    }

    fn resolves_to_endpoint(&self, text: &str) -> bool {
        if text.contains(|c: char| c.is_control() || matches!(c, '?' | '#')) {
            return false;
        }
        let base = resolved(&self.base);
        resolved(text).strip_prefix(&*base).is_some_and(|rest| self.is_endpoint(rest))
    }

    /// Whether these segments under the base are an endpoint, without a version or an Azure
    /// deployment before them.
    fn is_endpoint(&self, segments: &[&str]) -> bool {
        let matches = |segments: &[&str]| {
            let path = segments.join("/");
            let chats = Dialect::ALL.iter().flat_map(|dialect| dialect.facts().key_paths);
            let more = self.more.iter().map(String::as_str);
            let mut all = chats.copied().chain(listed(ENDPOINTS)).chain(more);
            all.any(|pattern| matches_pattern(pattern, &path))
        };
        let rest = match segments {
            ["openai", "deployments", _, rest @ ..] | ["deployments", _, rest @ ..] => Some(rest),
            [first, rest @ ..] if is_version(first) => Some(rest),
            _ => None,
        };
        matches(segments) || rest.is_some_and(matches)
    }
}

/// Whether `path` equals `pattern`, or lies under it if it ends in `/*`.
fn matches_pattern(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(folder) => {
            path.strip_prefix(folder).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
        }
        None => path == pattern,
    }
}

/// Whether a segment is an API version, such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the segments of a path without parameters, empty segments and dots.
fn resolved(path: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    for part in path.split(['/', '\\']) {
        match part.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => _ = kept.pop(),
            part => kept.push(part),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &str, more: &[&str], path: &str, expect: bool) {
        let more: Vec<String> = more.iter().map(|path| (*path).to_owned()).collect();
        let paths = KeyPaths::new(&BaseUrl::parse(base).unwrap(), &more);
        assert_eq!(paths.contains(path), expect, "{base} + {path}");
    }

    const GATEWAY: &str = "https://gw.example/v1/ours/openai";

    #[test]
    fn endpoints_under_the_base_receive_the_key() {
        for path in [
            "/chat/completions",
            "//chat/completions",
            "/v1/chat/completions",
            "/models/openai%2Fgpt",
            "/models/a/b",
            "/responses/resp_1/cancel",
            "/messages/count_tokens",
        ] {
            check(GATEWAY, &[], &format!("/v1/ours/openai{path}"), true);
            check("http://127.0.0.1:8000", &[], path, true);
        }
    }

    #[test]
    fn model_endpoints_of_azure_deployments_receive_the_key() {
        const AZURE: &str = "https://ours.openai.azure.com";
        let chat = "/openai/deployments/gpt-4o/chat/completions";
        check(AZURE, &[], chat, true);
        check(&format!("{AZURE}/openai"), &[], chat, true);
        for path in [
            "/openai/deployments",
            "/openai/deployments/gpt-4o",
            "/openai/deployments/gpt-4o/files",
            "/openai/deployments/../chat/completions",
            "/openai/deployments/..%2ffiles/chat/completions",
            "/openai/files/gpt-4o/chat/completions",
        ] {
            check(AZURE, &[], path, false);
        }
    }

    #[test]
    fn no_other_path_receives_the_key() {
        for path in [
            "/v1/evil/openai/chat/completions",
            "//v1/ours/openai/chat/completions",
            "/v1/ours/openaix/chat/completions",
            "/v1/ours/openai",
            "/v1/ours/openai/../evil/chat/completions",
            "/evil/../v1/ours/openai/chat/completions",
            "/v1/ours/openai/files/../chat/completions",
            "/v1/ours/openai/models/../files",
            "/v1/ours/openai/models/%2e%2e/files",
            "/v1/ours/openai/models/..%2ffiles",
            "/v1/ours/openai/models/%252e%252e%252ffiles",
            "/v1/ours/openai/models/..%5cfiles",
            "/v1/ours/openai/models/..;x/files",
            "/v1/ours/openai/models/..%3bx/files",
            "/v1/ours/openai/models/a%3f/b",
            "/v1/ours/openai/models/%ff",
            "/v1/ours/openai/models/%00",
            "/v1/ours/openai/models/%2525252541",
            "/v1/ours/openai/chat/completions/id",
            "/v1/ours/openai/files",
            "/v1/ours/openai/organization/admin_api_keys",
            "/admin/keys",
            "*",
        ] {
            check(GATEWAY, &[], path, false);
        }
    }

    #[test]
    fn setting_adds_paths_that_receive_the_key() {
        let more = ["/files", "batches/*"];
        for (path, expect) in [
            ("/v1/files", true),
            ("/v1/files/id", false),
            ("/v1/batches/id", true),
            ("/v1/batches", false),
            ("/v1/batches/../keys", false),
        ] {
            check("https://api.openai.com/v1", &more, path, expect);
        }
    }
}
