//! Paths and headers of each API's requests.

use crate::conversation::Conversation;
use crate::dialect::bypass::Bypass;
use crate::dialect::messages::clouds::CloudPath;
use crate::dialect::{Dialect, messages};
use crate::json::quote::quote;

impl Dialect {
    /// Returns the path that clients append to a base URL.
    pub fn path(self) -> &'static str {
        self.facts().path
    }

    /// Returns the first segment of [`path`](Self::path), with its slash.
    pub fn first_segment(self) -> &'static str {
        let path = self.path();
        let end = path.match_indices('/').nth(1).map(|(at, _)| at);
        end.and_then(|end| path.get(..end)).unwrap_or(path)
    }

    /// Returns the dialect of requests to `path`, whatever precedes the dialect's own path.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::split_path(path).map(|(_, dialect)| dialect)
    }

    /// Splits a path into the part before the dialect's own path, and the dialect. A trailing slash is part
    /// of the dialect's path, and so is a tenant of a cloud. Returns `None` for a path of no dialect.
    pub fn split_path(path: &str) -> Option<(&str, Self)> {
        if let Some(cloud) = CloudPath::parse(path) {
            return Some((cloud.folder, Self::Messages));
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut all = Self::ALL.into_iter();
        // A client whose base URL lacks the version sends the dialect's path alone.
        let is_own = |it: &Self| path.ends_with(it.facts().distinct_path) || path == it.path();
        let dialect = all.find(is_own)?;
        Some((path.strip_suffix(dialect.path())?, dialect))
    }

    /// Returns the path of the chats whose tokens a request to `path` counts, without a trailing
    /// slash; at clouds, `path` itself. Returns `None` if `path` counts no tokens of a chat that longhaul rewrites.
    pub fn counted_path(path: &str) -> Option<&str> {
        if CloudPath::parse(path).is_some_and(CloudPath::counts) {
            return Some(path);
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let chat = path.strip_suffix(messages::COUNT_PATH)?;
        let is_messages = !chat.ends_with('/') && Self::of_path(chat) == Some(Self::Messages);
        is_messages.then_some(chat)
    }

    /// Returns the path of longhaul's own calls in place of the client's `path`, for `model` or else for the
    /// client's own. `None` if `path` names no model.
    pub fn path_of_own_call(path: &str, model: Option<&str>) -> Option<String> {
        CloudPath::parse(path)?.for_answer(model)
    }

    /// Formats the body of an error reply of longhaul itself to a request to `path`. Clients of an unknown API
    /// get the most common format.
    pub fn error_reply(path: &str, status: u16, code: &str, message: &str) -> Vec<u8> {
        let own = CloudPath::parse(path).and_then(|cloud| cloud.error_body(code, message));
        let dialect = Self::of_path(path).unwrap_or(Self::ChatCompletions);
        own.unwrap_or_else(|| dialect.error_body(status, code, message))
    }

    /// Returns the path and the body of a chat with one message, for a test of an upstream in the most common
    /// API. The output has no limit: the name of that key differs between models.
    pub fn probe(model: &str, message: &str) -> (&'static str, String) {
        let (model, message) = (quote(model), Self::ChatCompletions.user_message(&quote(message)));
        let body = format!(r#"{{"model":{model},"messages":[{message}]}}"#);
        (Self::ChatCompletions.path(), body)
    }
}

/// Decodes `%41` and the like; invalid sequences stay.
pub(crate) fn percent_decoded(target: &str) -> String {
    let mut bytes = Vec::with_capacity(target.len());
    let mut rest = target.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(if byte == b'+' { b' ' } else { byte }));
        rest = match decoded {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Conversation<'_> {
    /// Adds what the path of the request states.
    ///
    /// # Errors
    /// The path names a model, and the body lacks the version of this API: the model may have another.
    pub fn at_path(self, path: &str) -> Result<Self, Bypass> {
        let Some(path) = CloudPath::parse(path).map(CloudPath::params) else {
            return Ok(self);
        };
        let mut keys = self.params().routing.iter().map(|(key, _)| key.decode(self.body()));
        if path.model.is_empty() || keys.any(|key| key == messages::clouds::VERSION_KEY) {
            Ok(self.with_path(path))
        } else {
            Err(Bypass::Shape)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_path_removes_one_trailing_slash() {
        let split = |path| Dialect::split_path(path).map(|(folder, _)| folder);
        assert_eq!(split("/v1/chat/completions/"), Some("/v1"));
        assert_eq!(split("/v1/chat/completions"), Some("/v1"));
        assert_eq!(split("/v1/chat/completions//"), None);
        assert_eq!(split("/"), None);
    }

    #[test]
    fn path_suffix_selects_the_dialect() {
        let chat = Some(Dialect::ChatCompletions);
        for (path, expect) in [
            ("/v1/chat/completions", chat),
            ("/openai/deployments/x/chat/completions", chat),
            ("/v1/chat/completions/", chat),
            ("/v1/responses", Some(Dialect::Responses)),
            ("/backend-api/codex/responses", Some(Dialect::Responses)),
            ("/v1/responses/", Some(Dialect::Responses)),
            ("/v1/responses/compact", None),
            ("/v1/responses/input_tokens", None),
            ("/v1/responses/resp_1/cancel", None),
            ("/serving-endpoints/open-responses", None),
            ("/v1/completions", None),
            ("/v1/messages", Some(Dialect::Messages)),
            ("/api/anthropic/v1/messages/", Some(Dialect::Messages)),
            ("/messages", Some(Dialect::Messages)),
            ("/messages/", Some(Dialect::Messages)),
            ("//messages", None),
            ("/v1/threads/t/messages", None),
            ("/threads/t/messages", None),
            ("/v1/messages/count_tokens", None),
            ("/v1/messages/batches", None),
            ("", None),
        ] {
            assert_eq!(Dialect::of_path(path), expect, "{path}");
        }
    }

    #[test]
    fn a_count_has_the_path_of_its_chats() {
        for (path, expect) in [
            ("/v1/messages/count_tokens", Some("/v1/messages")),
            ("/api/v1/messages/count_tokens/", Some("/api/v1/messages")),
            ("/messages/count_tokens", Some("/messages")),
            ("/v1/messages//count_tokens", None),
            ("/v1/threads/t/messages/count_tokens", None),
            ("/v1/responses/count_tokens", None),
            ("/v1/responses/input_tokens", None),
            ("/v1/messages", None),
        ] {
            assert_eq!(Dialect::counted_path(path), expect, "{path}");
        }
    }
}
