//! The credentials and headers of clients, and the requirements of Anthropic's servers.

use crate::dialect::Dialect;
use crate::dialect::messages::clouds::CloudPath;
use crate::dialect::messages::{DISTINCT_PATH, PATH};

/// The header in which a server expects a key.
pub(in crate::dialect) const KEY_HEADER: &str = "x-api-key";
/// The version that each request names.
pub(in crate::dialect) const REQUIRED_HEADERS: &[(&str, &str)] = &[(VERSION_HEADER, "2023-06-01")];
const VERSION_HEADER: &str = "anthropic-version";
/// Header of requests for features that no other API has.
const FEATURES_HEADER: &str = "anthropic-beta";

/// The feature of compactions on demand.
pub(in crate::dialect) const COMPACTION_HEADER: (&str, &str) =
    (FEATURES_HEADER, "compact-2026-09-04");

impl Dialect {
    /// Whether the form of `token` shows that it is a key for the API's
    /// [`key_header`](crate::dialect::facts::DialectFacts::key_header), and useless as a bearer token.
    pub fn is_plain_key(self, token: &[u8]) -> bool {
        match self {
            Self::ChatCompletions | Self::Responses => false,
            Self::Messages => token.starts_with(b"sk-ant-api"),
        }
    }

    /// Whether a bearer token is a login of a person. Anthropic refuses requests of such a login that do
    /// not look like Claude Code's own.
    pub fn is_client_login(token: &[u8]) -> bool {
        token.starts_with(b"sk-ant-oat")
    }

    /// Whether a request to `path` belongs to an API that may have its own upstream. Such a request is a
    /// chat, or has a header that only the API's clients send. Threads of OpenAI's assistants have messages
    /// too, under a path of their own.
    pub fn belongs_to_own_upstream<'a>(
        path: &str,
        mut headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> bool {
        let is_under = |prefix| {
            let rest = path.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // No other upstream may receive a key or login that Anthropic issued.
        let is_issued = |token: &[u8]| token.starts_with(b"sk-ant-");
        CloudPath::parse(path).is_some()
            || is_under(PATH)
            || is_under(DISTINCT_PATH)
            || headers.any(|(name, value)| match name {
                VERSION_HEADER => true,
                // Gateways accept this header with chats of other APIs.
                FEATURES_HEADER => Self::of_path(path).is_none(),
                KEY_HEADER => is_issued(value),
                "authorization" => {
                    let split = value.split_at_checked(b"Bearer ".len());
                    let (scheme, token) = split.unwrap_or_default();
                    scheme.eq_ignore_ascii_case(b"Bearer ") && is_issued(token.trim_ascii_start())
                }
                _ => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_with_a_credential_of_anthropic_belongs_to_messages() {
        let is_messages = |path: &str, name: &str, value: &str| {
            Dialect::belongs_to_own_upstream(path, [(name, value.as_bytes())].into_iter())
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
        assert!(!is_messages("/v1/files", "authorization", "Bearer sk-proj-x"));
        assert!(!is_messages("/v1/threads/t/messages", "x-api-key", "k"));
        let chat = "/v1/chat/completions";
        assert!(!is_messages(chat, "anthropic-beta", "context-1m-2025-08-07"));
    }
}
