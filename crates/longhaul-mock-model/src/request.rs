//! A chat request as the strict model reads it.

use serde_json::Value;

use crate::binding::hash;
use crate::responses::{self, StoredResponses};

/// The API of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Api {
    /// `POST …/chat/completions`.
    ChatCompletions,
    /// `POST …/v1/messages`.
    Messages,
    /// `POST …/responses`.
    Responses,
}

impl Api {
    /// Returns the API of a path, or `None` for any other path.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::ChatCompletions)
        } else if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else {
            path.ends_with("/responses").then_some(Self::Responses)
        }
    }
}

/// The body of a chat request.
#[derive(Debug)]
pub(crate) struct ChatBody {
    api: Api,
    /// The body as a chat, whatever its API.
    body: Value,
    /// The body as it was sent, if its API is not that of chats.
    original: Option<Value>,
    /// The sender of the request.
    caller: Caller,
}

/// The sender of a request, by the headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The credential; empty without one.
    pub(crate) credential: String,
    /// The values of `anthropic-beta`.
    pub(crate) betas: Vec<String>,
    /// Whether the request names an account of `ChatGPT`.
    #[cfg_attr(not(feature = "validity"), expect(dead_code, reason = "a rule of validity"))]
    pub(crate) has_account: bool,
}

impl Caller {
    /// Reads the headers of a request.
    pub(crate) fn of(headers: &http::HeaderMap) -> Self {
        let value = |name: &&str| headers.get(*name)?.to_str().ok();
        let credential = ["authorization", "x-api-key"].iter().find_map(value).unwrap_or_default();
        let betas = headers.get_all("anthropic-beta").iter().filter_map(|it| it.to_str().ok());
        let betas = betas.flat_map(|it| it.split(',')).map(|it| it.trim().to_owned());
        Self {
            credential: credential.to_owned(),
            betas: betas.collect(),
            has_account: headers.contains_key("chatgpt-account-id"),
        }
    }
}

impl ChatBody {
    /// Parses a body. Returns the reason if it is not a JSON object.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(body).map_err(|error| error.to_string())?;
        let body: Value = text.parse().map_err(|error: serde_json::Error| error.to_string())?;
        if body.is_object() {
            Ok(Self { api: Api::ChatCompletions, body, original: None, caller: Caller::default() })
        } else {
            Err("expected an object".to_owned())
        }
    }

    /// Parses a body of this API.
    pub(crate) fn parse_as(api: Api, body: &[u8]) -> Result<Self, String> {
        let parsed = Self::parse(body)?;
        Ok(match api {
            Api::ChatCompletions => parsed,
            Api::Messages => Self { api, ..parsed },
            Api::Responses => Self {
                api,
                body: responses::as_chat(&parsed.body),
                original: Some(parsed.body),
                caller: parsed.caller,
            },
        })
    }

    /// Parses a body of the API whose keys it has.
    pub(crate) fn parse_any(body: &[u8]) -> Result<Self, String> {
        let parsed = Self::parse(body)?;
        let has_schema = |tool: &Value| tool.get("input_schema").is_some();
        if parsed.body.get("input").is_some() {
            Self::parse_as(Api::Responses, body)
        } else if parsed.body.get("system").is_some() || parsed.tools().iter().any(has_schema) {
            Ok(Self { api: Api::Messages, ..parsed })
        } else {
            Ok(parsed)
        }
    }

    /// Sets the sender of the request.
    pub(crate) fn with_caller(self, caller: Caller) -> Self {
        Self { caller, ..self }
    }

    pub(crate) fn credential(&self) -> &str {
        &self.caller.credential
    }

    /// Returns a number that stands for the organisation of the caller.
    pub(crate) fn caller_number(&self) -> u64 {
        hash(&Value::from(self.credential()), &[])
    }

    /// Whether the sender has this value of `anthropic-beta`.
    pub(crate) fn has_beta(&self, name: &str) -> bool {
        self.caller.betas.iter().any(|beta| beta == name)
    }

    /// Whether a login of `ChatGPT` sent the request: a token of three parts, and an account.
    #[cfg(feature = "validity")]
    pub(crate) fn is_chatgpt_login(&self) -> bool {
        let token = self.credential().strip_prefix("Bearer ").unwrap_or_default();
        self.caller.has_account && token.split('.').count() == 3
    }

    /// Returns the body without items or blocks, given by item or message, and block.
    pub(crate) fn without(&self, places: &[(usize, usize)]) -> Self {
        let mut body = self.original().clone();
        let name = if self.api == Api::Responses { "input" } else { "messages" };
        let mut at = 0;
        if let Some(items) = body.get_mut(name).and_then(Value::as_array_mut) {
            items.retain_mut(|item| {
                let gone = places.iter().filter(|place| place.0 == at).map(|place| place.1);
                let gone: Vec<usize> = gone.collect();
                at += 1;
                let blocks = item.get_mut("content").and_then(Value::as_array_mut);
                let Some(blocks) = blocks.filter(|_| self.api == Api::Messages) else {
                    return gone.is_empty();
                };
                let mut block = 0;
                blocks.retain(|_| {
                    block += 1;
                    !gone.contains(&(block - 1))
                });
                gone.is_empty() || !blocks.is_empty()
            });
        }
        let caller = self.caller.clone();
        match self.api {
            Api::ChatCompletions | Api::Messages => {
                Self { api: self.api, body, original: None, caller }
            }
            Api::Responses => {
                let chat = responses::as_chat(&body);
                Self { api: self.api, body: chat, original: Some(body), caller }
            }
        }
    }

    /// Returns the body with the history that the server keeps for it.
    pub(crate) fn with_stored(self, stored: &StoredResponses) -> Self {
        match self.original.as_ref().and_then(|sent| stored.resolve(sent)) {
            Some(resolved) => {
                Self { body: responses::as_chat(&resolved), original: Some(resolved), ..self }
            }
            None => self,
        }
    }

    pub(crate) fn is_messages(&self) -> bool {
        self.api == Api::Messages
    }

    pub(crate) fn api(&self) -> Api {
        self.api
    }

    /// Returns the body as it was sent.
    pub(crate) fn original(&self) -> &Value {
        self.original.as_ref().unwrap_or(&self.body)
    }

    pub(crate) fn field(&self, name: &str) -> &Value {
        member(&self.body, name)
    }

    /// Returns the instructions outside the messages.
    pub(crate) fn system(&self) -> &Value {
        match self.api {
            Api::ChatCompletions | Api::Responses => &Value::Null,
            Api::Messages => self.field("system"),
        }
    }

    pub(crate) fn messages(&self) -> &[Value] {
        list(self.field("messages"))
    }

    /// Returns each message as it was sent, in the order of [`Self::messages`].
    pub(crate) fn sent_messages(&self) -> impl Iterator<Item = &Value> {
        let items = self.original.as_ref().map(|sent| list(member(sent, "input")));
        let items = items.unwrap_or_default();
        // Instructions and an input that is a string have no item.
        let others = self.messages().len() - items.len();
        self.messages().iter().take(others).chain(items)
    }

    pub(crate) fn tools(&self) -> &[Value] {
        list(self.field("tools"))
    }

    /// Returns the messages after the leading system and developer messages.
    pub(crate) fn turns(&self) -> &[Value] {
        let messages = self.messages();
        let head = messages.iter().take_while(|message| is_head(message)).count();
        messages.get(head..).unwrap_or_default()
    }

    pub(crate) fn wants_stream(&self) -> bool {
        self.field("stream").as_bool().unwrap_or(false)
    }

    pub(crate) fn wants_usage(&self) -> bool {
        member(self.field("stream_options"), "include_usage").as_bool().unwrap_or(false)
    }

    /// Returns the requested output limit, if any; the model counts a missing limit as 0.
    pub(crate) fn max_output(&self) -> Option<u64> {
        let new = self.field("max_completion_tokens").as_u64();
        new.or_else(|| self.field("max_tokens").as_u64())
    }

    pub(crate) fn model(&self) -> &str {
        self.field("model").as_str().unwrap_or("model")
    }
}

/// Returns a member of an object, or null if there is none.
pub(crate) fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// Returns the items of an array; empty for any other value.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn role(message: &Value) -> &str {
    member(message, "role").as_str().unwrap_or_default()
}

pub(crate) fn is_head(message: &Value) -> bool {
    matches!(role(message), "system" | "developer")
}

/// Returns the text of a message: its string, or its text parts joined by line ends.
pub(crate) fn text(message: &Value) -> String {
    let content = member(message, "content");
    let parts = list(content).iter().filter_map(|part| member(part, "text").as_str());
    content.as_str().map_or_else(|| parts.collect::<Vec<_>>().join("\n"), str::to_owned)
}
